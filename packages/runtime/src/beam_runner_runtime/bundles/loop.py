"""The loop inside a task: the job's scheduler and its bundles in one process, for a while.

While data and state are small, a round trip to the server for every bundle costs more than the
bundle. So the server lends the scheduler to a task, which runs bundle after bundle and tells now and
then what has happened, as entries of the journal, to be committed together. The loop is left

| when | then |
|---|---|
| nothing is left to run | the server waits for what is next |
| a bundle runs longer than ``loop_bundle_ms``, or ``loop_source_ms`` | it goes on as a bundle of the lane, beside others |
| the data that waits exceeds ``loop_waiting_bytes`` | the server spreads it over lanes |
| a section is opened | the server has Spark run it |
| several bundles wait, and the last took more than ``loop_parallel_ms`` | they run side by side |
| the server asks | as soon as possible |

What the loop has done counts once the server has it. If that can't be told, `TaskLoop.run` raises: then nothing
counts that has happened since the last progress, and the server runs the same bundles again.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

import attrs
from beam_runner_data.rows.refs import StateCommit
from beam_runner_data.state.shard_stores import LoopStores
from beam_runner_engine.dispatch.driver import Driver
from beam_runner_engine.dispatch.small_work import LoopLimits
from beam_runner_engine.scheduler.commands import Bundle, Command
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.threads import start_essential
from beam_runner_storage.unavailable import NeighbourUnavailable
from beam_runner_worker.totals import Totals

from beam_runner_runtime.bundles.failed_attempts import broke
from beam_runner_runtime.bundles.keyed import Stores
from beam_runner_runtime.bundles.neighbour_wait import at_once
from beam_runner_runtime.channel.attempts import Attempt, BundleBroke
from beam_runner_runtime.channel.messages import (
    BundleReply,
    Entry,
    LoopProgress,
    LoopReply,
    RunBundle,
    RunLoop,
)
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.tuning import TUNING

Flushed: TypeAlias = Mapping[tuple[str, int], StateCommit]
_LOGGER = logging.getLogger(__name__)


class BundleHost(Protocol):
    """Runs one bundle in this process, in the calling thread."""

    def run_bundle(self, order: RunBundle, stores: Stores) -> BundleReply | BundleBroke:
        """Processes a bundle to its end; never raises for what went wrong in it.

        Args:
            order: the bundle.
            stores: the state of key shards.
        """


class TaskLoop:
    """One loop: the host, in a task, of what drives the job. ``run`` belongs to the lane's thread.

    Args:
        order: what the server lends.
        folder: the job's.
        host: runs the bundles.
        send: sends what has happened.
        awaited: the stages of which a bundle leaves the loop sooner: something waits for its end, or for part of it.
        clock: the job's processing time; this machine's by default.
        wait: calls what writes state, again while the disk is away.
    """

    def __init__(
        self,
        order: RunLoop,
        folder: Path,
        host: BundleHost,
        send: Callable[[LoopProgress | LoopReply], None],
        awaited: Container[str] = (),
        clock: ProcessingClock | None = None,
        wait: Callable[[Callable[[], Flushed]], Flushed] = at_once,
    ) -> None:
        self._clock = clock or ProcessingClock()
        self._wait = wait
        self._folder = folder
        self._order = order
        self._host = host
        self._send = send
        self._awaited = awaited
        self._scheduler: Scheduler = pickle.loads(order.scheduler)
        self._driver: Driver[Entry] = Driver(self)
        self._stores = LoopStores(folder, order.segments)
        self._waiting: deque[Bundle] = deque(self._scheduler.open_bundles)
        self._lock = threading.Lock()
        self._parts = 0
        self._entries: list[Entry] = []
        self._last_reply: dict[tuple[str, int], int] = {}
        self._metrics = Totals()
        self._running: Bundle | None = None
        self._limits = LoopLimits(
            TUNING.loop_bundle_ms,
            TUNING.loop_source_ms,
            TUNING.loop_parallel_ms,
            TUNING.loop_usual_weight,
            TUNING.loop_waiting_bytes,
            TUNING.loop_report_ms,
            TUNING.loop_report_entries,
            TUNING.loop_nap_ms,
        )
        self._usual_ms = 0.0
        self._since = 0.0
        self._told_at = time.monotonic()
        self._untold: LoopProgress | LoopReply | None = None
        self._is_asked_to_leave = threading.Event()
        self._is_left = False
        self._is_over = threading.Event()

    def run(self) -> BundleReply | BundleBroke | None:
        """Runs bundles until the loop is left.

        Returns:
            The reply of the bundle that was running when the loop was left, if one was: it is no
            longer the loop's, and not in its entries.

        Raises:
            Exception: what has happened can't be told to the server. No bundle runs then.
        """
        start_essential(self._watch, "loop")
        try:
            while True:
                with self._alone():
                    bundle = self._next()
                    if bundle is None:
                        return None
                    self._running = bundle
                    self._since = time.monotonic()
                name = f"{self._order.name}-{bundle.number}-{bundle.attempt}"
                reply = self._host.run_bundle(RunBundle(bundle, name), self._stores)
                with self._alone():
                    if self._is_left:
                        self._send_untold()
                        return self._on_top_of_the_loop(bundle, reply, name)
                    self._running = None
                    self._took(bundle, reply)
        finally:
            self._is_over.set()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds the lock; after an error nothing more is told."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._is_over.set()
                raise

    def ask_to_leave(self) -> None:
        """Has the loop left soon, by a thread of its own; for any thread, which waits for nothing."""
        self._is_asked_to_leave.set()

    def leave(self, *, outgrown: bool = False) -> None:
        """Leaves the loop now; a bundle that runs goes on as one of the lane's.

        Raises:
            NeighbourUnavailable: what has happened can't be told now. That is tried again.
        """
        with self._lock:
            if not (self._is_left or self._is_over.is_set()):
                self._hand_back(outgrown=outgrown)

    def _watch(self) -> None:
        while not self._is_over.wait(TUNING.loop_watch_seconds):
            try:
                self._look()
            except NeighbourUnavailable as error:
                # The bundle that runs goes on meanwhile.
                _LOGGER.warning("a loop can't tell what has happened in it: %s", error)

    def _look(self) -> None:
        """Sends what is to be sent, and leaves the loop if it is time to."""
        with self._lock:
            if self._is_over.is_set():
                return
            self._send_untold()
        running = self._running
        if self._is_asked_to_leave.is_set():
            self.leave()
        elif running is not None:
            longest = self._limits.max_duration(awaited=running.stage in self._awaited)
            if _ms_since(self._since) > longest:
                self.leave(outgrown=True)

    def _send_untold(self) -> None:
        if self._untold is not None:
            self._send(self._untold)
            self._untold = None

    def _next(self) -> Bundle | None:
        """The next bundle; None if the loop is left instead."""
        while not self._is_left:
            if self._driver.has_ended or self._is_asked_to_leave.is_set():
                self._hand_back(outgrown=False)
                break
            if self._limits.is_report_due(len(self._entries), _ms_since(self._told_at)):
                self._tell()
            if self._limits.is_outgrown(self._waiting, self._usual_ms):
                self._hand_back(outgrown=True)
            elif self._waiting:
                return self._waiting.popleft()
            elif not self._nap():
                self._hand_back(outgrown=False)
        return None

    def _nap(self) -> bool:
        """Waits for an alarm that is about to ring; whether there was one."""
        wait = self._driver.time_until_wake(self._clock.now())
        if wait is None or not self._limits.should_wait(wait):
            return False
        time.sleep(wait / 1000)
        self._driver.record_entries((), self._clock.now())
        return True

    def _took(self, bundle: Bundle, reply: BundleReply | BundleBroke) -> None:
        self._usual_ms = self._limits.update_usual(self._usual_ms, _ms_since(self._since))
        if isinstance(reply, BundleBroke):
            self._driver.record_entries((reply.to_event(),), self._clock.now())
            return
        self._metrics.add(reply.metrics)
        self._driver.record_entries((attrs.evolve(reply, metrics=()),), self._clock.now())
        if self._has_state(bundle):
            assert bundle.shard is not None
            self._stores.accept(bundle.stage, bundle.shard)
            self._last_reply[bundle.stage, bundle.shard] = len(self._entries) - 1

    def _on_top_of_the_loop(
        self, bundle: Bundle, reply: BundleReply | BundleBroke, name: str
    ) -> BundleReply | BundleBroke:
        """The reply of a bundle that has ended after the loop, whose state was written by then."""
        if isinstance(reply, BundleBroke) or not self._has_state(bundle):
            return reply
        assert bundle.shard is not None
        try:
            state = self._stores.write_last(bundle.stage, bundle.shard, name)
        except Exception as error:
            return broke(reply.attempt, error, self._folder)
        return attrs.evolve(reply, state=state)

    def _has_state(self, bundle: Bundle) -> bool:
        return bundle.shard is not None and self._stores.is_known(bundle.stage, bundle.shard)

    # What the driver asks for.

    @property
    def next_wake(self) -> int | None:
        """The processing time (ms) of the next tick that is needed."""
        return self._scheduler.next_wake

    def record(self, entries: Sequence[Entry]) -> list[Command]:
        """Works entries in, and keeps them for the journal, which is the server's."""
        self._entries += entries
        events = (entry.done if isinstance(entry, BundleReply) else entry for entry in entries)
        return [command for event in events for command in self._scheduler.handle(event)]

    def open(self, bundles: Sequence[Bundle]) -> None:
        """Has bundles wait for their turn."""
        self._waiting.extend(bundles)

    def split(self, bundle: int, attempt: int, fraction: float) -> None:
        """Does nothing: the server asks when it is told, of a bundle that goes on by then."""

    def stop(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Forgets what waits: the job has ended."""
        self._waiting.clear()

    def finalize(self, bundles: Sequence[int]) -> None:
        """Does nothing: callbacks follow the commit, which is the server's."""

    # What the server is told.

    def _tell(self) -> None:
        """Has what was done committed, and goes on.

        It is sent a moment later, by a thread of its own: encoding it takes milliseconds, which the
        next bundle is not to wait for.
        """
        self._send_untold()
        self._untold = LoopProgress(self._order.loop, self._take_entries())
        self._stores.build_on_flushed()
        self._told_at = time.monotonic()

    def _hand_back(self, *, outgrown: bool) -> None:
        """Gives the scheduler back to the server. The loop is left as soon as the state is written."""
        self._send_untold()
        running = self._running
        self._untold = LoopReply(
            self._order.loop,
            self._take_entries(),
            None if running is None else Attempt(running.number, running.attempt),
            outgrown,
        )
        self._is_left = True
        self._send_untold()

    def _take_entries(self) -> tuple[Entry, ...]:
        """What has happened and was not told yet, with state and metrics."""
        self._keep_state()
        self._keep_metrics(self._metrics.infos())
        entries = tuple(self._entries)
        self._metrics = Totals()
        self._entries.clear()
        self._last_reply.clear()
        return entries

    def _keep_state(self) -> None:
        """Writes what changed in the state of shards, and tells it with the last commit of each."""
        for place, commit in self._wait(self._flush).items():
            number = self._last_reply.get(place)
            if number is not None:
                entry = self._entries[number]
                assert isinstance(entry, BundleReply)
                self._entries[number] = attrs.evolve(entry, state=commit)

    def _flush(self) -> Flushed:
        self._parts += 1  # a part that could not be written may have left a file
        return self._stores.flush(f"{self._order.name}-part{self._parts}")

    def _keep_metrics(self, metrics: tuple[MonitoringInfo, ...]) -> None:
        """Tells the sum of all metrics with the last commit."""
        for number in reversed(range(len(self._entries))):
            entry = self._entries[number]
            if isinstance(entry, BundleReply):
                self._entries[number] = attrs.evolve(entry, metrics=metrics)
                return


def _ms_since(moment: float) -> float:
    return (time.monotonic() - moment) * 1000
