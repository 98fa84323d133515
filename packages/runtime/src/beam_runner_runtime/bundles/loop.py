"""The loop inside a task: one worker process runs the job's scheduler and all bundles, for a
limited time.

While data and state are small, a round trip to the server costs more than a bundle. So the server
moves the scheduler to a Spark task, which runs one bundle after the other. At intervals, the task
reports journal entries, which the server commits together. The loop ends on these conditions:

| condition | effect |
|---|---|
| no bundle is left to run | the server waits for the next event |
| a bundle runs longer than ``loop_bundle_ms``, or ``loop_source_ms`` | the bundle continues outside of the loop, in parallel with other bundles |
| the waiting data exceeds ``loop_waiting_bytes`` | the server distributes the data over lanes |
| a section is opened | the server submits the section to Spark |
| several bundles wait, and the last bundle took more than ``loop_parallel_ms`` | the bundles run in parallel |
| the server requests the end of the loop | the loop ends as soon as possible |

Results of the loop are committed when the server has received their report. If the loop can't send
its report, `TaskLoop.run_loop` raises an error. The server then runs all bundles again that
finished after the last report.
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
from beam_runner_data.state.shard_stores import SchedulerLoopStores
from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.dispatch.loop_limits import LoopLimits
from beam_runner_engine.scheduler.commands import Bundle, Command
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.threads import start_essential_thread
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from beam_runner_worker.totals import Totals

from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.neighbour_wait import call_without_retry
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure
from beam_runner_runtime.channel.isolation import IsolationOrder
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
    """Interface of the object that runs one bundle of the scheduler loop, in the calling thread."""

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider
    ) -> BundleReply | BundleFailure:
        """Runs a bundle and returns the bundle's reply. Never raises for a failure of the bundle.

        Args:
            order: the bundle.
            stores: state of key shards.
        """


class TaskLoop:
    """Loop that runs the job's scheduler, and the bundles that the scheduler starts, in this worker
    process. Only the thread of the process's lane calls ``run_loop``.

    Args:
        order: the server's order, which contains the scheduler.
        awaited: stages whose long bundles leave the loop earlier, because other stages wait for
            their output, or because they can be split.
        clock: processing-time clock of the job; by default the clock of this machine.
        wait: function that retries state writes while the disk is unavailable.
    """

    def __init__(
        self,
        order: RunLoop,
        folder: Path,
        host: BundleHost,
        send: Callable[[LoopProgress | LoopReply], None],
        awaited: Container[str] = (),
        clock: ProcessingClock | None = None,
        wait: Callable[[Callable[[], Flushed]], Flushed] = call_without_retry,
    ) -> None:
        self._clock = clock or ProcessingClock()
        self._wait = wait
        self._folder = folder
        self._order = order
        self._host = host
        self._send = send
        self._awaited = awaited
        self._scheduler: Scheduler = pickle.loads(order.scheduler)
        self._isolation = order.isolation
        self._driver: JobDriver[Entry] = JobDriver(self)
        self._stores = SchedulerLoopStores(folder, order.segments)
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
        self._pending_report: LoopProgress | LoopReply | None = None
        self._is_asked_to_leave = threading.Event()
        self._is_left = False
        self._is_over = threading.Event()

    def run_loop(self) -> BundleReply | BundleFailure | None:
        """Runs the scheduler and its bundles in this process until the loop ends.

        Returns:
            The reply of the bundle that was running at the end of the loop, if any. The loop's
            report doesn't contain this bundle.

        Raises:
            Exception: The loop can't report its results to the server. No bundle runs when the
                error is raised.
        """
        start_essential_thread(self._watch_limits, "loop")
        try:
            while True:
                with self._hold_lock():
                    bundle = self._take_next_bundle()
                    if bundle is None:
                        return None
                    self._running = bundle
                    self._since = time.monotonic()
                name = f"{self._order.name}-{bundle.number}-{bundle.attempt}"
                order = RunBundle(bundle, name, isolation=self._make_isolation_order(bundle))
                reply = self._host.run_bundle(order, self._stores)
                with self._hold_lock():
                    if self._is_left:
                        self._send_pending_report()
                        return self._add_loop_state(bundle, reply, name)
                    self._running = None
                    self._record_reply(bundle, reply)
        finally:
            self._is_over.set()

    def _make_isolation_order(self, bundle: Bundle) -> IsolationOrder | None:
        if self._isolation is None:
            return None
        return self._isolation.copy_with_failures(self._scheduler.get_failure_detail(bundle.number))

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Holds the lock in a ``with`` block. After an error in the block, the loop doesn't send reports anymore."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._is_over.set()
                raise

    def request_loop_end(self) -> None:
        """Asks the scheduler loop to end, and doesn't wait for the end. A separate thread ends the
        loop. Thread-safe.
        """
        self._is_asked_to_leave.set()

    def end_loop(self, *, outgrown: bool = False) -> None:
        """Ends the scheduler loop now. A running bundle continues outside of the loop, in the same
        process.

        Raises:
            ExternalSystemUnavailable: The loop can't report its results now. The separate thread tries
                again.
        """
        with self._lock:
            if not (self._is_left or self._is_over.is_set()):
                self._return_scheduler(outgrown=outgrown)

    def _watch_limits(self) -> None:
        while not self._is_over.wait(TUNING.loop_watch_seconds):
            try:
                self._check_limits()
            except ExternalSystemUnavailable as error:
                # Only log the error: the current bundle continues, and a later report contains the same results.
                _LOGGER.warning("a loop can't report its work to the server: %s", error)

    def _check_limits(self) -> None:
        """Sends pending reports to the server, and ends the loop if a limit is reached."""
        with self._lock:
            if self._is_over.is_set():
                return
            self._send_pending_report()
        running = self._running
        if self._is_asked_to_leave.is_set():
            self.end_loop()
        elif running is not None:
            longest = self._limits.get_max_duration(awaited=running.stage in self._awaited)
            if _measure_elapsed_ms(self._since) > longest:
                self.end_loop(outgrown=True)

    def _send_pending_report(self) -> None:
        if self._pending_report is not None:
            self._send(self._pending_report)
            self._pending_report = None

    def _take_next_bundle(self) -> Bundle | None:
        """Returns the next bundle. If a limit is reached or no bundle is left, ends the loop and returns None."""
        while not self._is_left:
            if self._driver.has_ended or self._is_asked_to_leave.is_set():
                self._return_scheduler(outgrown=False)
                break
            if self._limits.is_report_due(len(self._entries), _measure_elapsed_ms(self._told_at)):
                self._queue_progress_report()
            if self._limits.needs_several_slots(self._waiting, self._usual_ms):
                self._return_scheduler(outgrown=True)
            elif self._waiting:
                return self._waiting.popleft()
            elif not self._wait_for_alarm():
                self._return_scheduler(outgrown=False)
        return None

    def _wait_for_alarm(self) -> bool:
        """Waits for the scheduler's next alarm if the alarm is due soon. Returns whether it was."""
        wait = self._driver.compute_wake_delay(self._clock.now())
        if wait is None or not self._limits.should_wait_for_work(wait):
            return False
        time.sleep(wait / 1000)
        self._driver.record_journal_entries((), self._clock.now())
        return True

    def _record_reply(self, bundle: Bundle, reply: BundleReply | BundleFailure) -> None:
        self._usual_ms = self._limits.update_average_duration(
            self._usual_ms, _measure_elapsed_ms(self._since)
        )
        if isinstance(reply, BundleFailure):
            self._driver.record_journal_entries((reply.to_event(),), self._clock.now())
            return
        if reply.quarantined and self._isolation is not None:
            room = self._isolation.room - len(reply.quarantined)
            self._isolation = attrs.evolve(self._isolation, room=room)
        self._metrics.add(reply.metrics)
        self._driver.record_journal_entries((attrs.evolve(reply, metrics=()),), self._clock.now())
        if self._has_state(bundle):
            assert bundle.shard is not None
            self._stores.accept_changes(bundle.stage, bundle.shard)
            self._last_reply[bundle.stage, bundle.shard] = len(self._entries) - 1

    def _add_loop_state(
        self, bundle: Bundle, reply: BundleReply | BundleFailure, name: str
    ) -> BundleReply | BundleFailure:
        """Returns the reply of a bundle that ran beyond the end of the loop, with the state files
        that the loop wrote for its key shard.
        """
        if isinstance(reply, BundleFailure) or not self._has_state(bundle):
            return reply
        assert bundle.shard is not None
        try:
            state = self._stores.write_last_changes(bundle.stage, bundle.shard, name)
        except Exception as error:
            return describe_failed_attempt(reply.attempt, error, self._folder)
        return attrs.evolve(reply, state=state)

    def _has_state(self, bundle: Bundle) -> bool:
        return bundle.shard is not None and self._stores.has_open_store(bundle.stage, bundle.shard)

    # Methods of the engine's protocol `Host`. The engine's driver calls them to execute commands.

    @property
    def next_wake(self) -> int | None:
        """Processing time (ms) of the next required tick; None if no tick is required."""
        return self._scheduler.next_wake

    def record_journal_entries(self, entries: Sequence[Entry]) -> list[Command]:
        """Applies journal entries to the scheduler, and retains the entries for the server's
        journal.
        """
        self._entries += entries
        events = (entry.done if isinstance(entry, BundleReply) else entry for entry in entries)
        return [command for event in events for command in self._scheduler.handle_event(event)]

    def open_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Queues bundles."""
        self._waiting.extend(bundles)

    def split_bundle(self, bundle: int, attempt: int, fraction: float) -> None:
        """Does nothing: the server splits a bundle only after the bundle has left the loop."""

    def cancel_bundles(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Discards the queued bundles, because the job has ended."""
        self._waiting.clear()

    def finalize_bundles(self, bundles: Sequence[int]) -> None:
        """Does nothing: the server requests the callbacks after it has committed the loop's results."""

    # Reports to the server.

    def _queue_progress_report(self) -> None:
        """Queues a report of all results since the last report, without waiting for the
        transmission.

        The separate thread encodes and sends the report, because this takes milliseconds and must
        not delay the next bundle.
        """
        self._send_pending_report()
        self._pending_report = LoopProgress(self._order.loop, self._take_entries())
        self._stores.adopt_flushed_changes()
        self._told_at = time.monotonic()

    def _return_scheduler(self, *, outgrown: bool) -> None:
        """Sends the scheduler back to the server with the last report, after the state is written.
        This ends the loop.
        """
        self._send_pending_report()
        running = self._running
        self._pending_report = LoopReply(
            self._order.loop,
            self._take_entries(),
            None if running is None else Attempt(running.number, running.attempt),
            outgrown,
        )
        self._is_left = True
        self._send_pending_report()

    def _take_entries(self) -> tuple[Entry, ...]:
        """Removes and returns the journal entries that aren't reported yet, with state and metrics."""
        self._attach_state()
        self._attach_metrics(self._metrics.infos())
        entries = tuple(self._entries)
        self._metrics = Totals()
        self._entries.clear()
        self._last_reply.clear()
        return entries

    def _attach_state(self) -> None:
        """Writes the changed state of key shards to files, and adds the files to the last entry of each shard."""
        for place, commit in self._wait(self._flush_state).items():
            number = self._last_reply.get(place)
            if number is not None:
                entry = self._entries[number]
                assert isinstance(entry, BundleReply)
                self._entries[number] = attrs.evolve(entry, state=commit)

    def _flush_state(self) -> Flushed:
        self._parts += 1  # a failed write can leave a file with the previous name
        return self._stores.flush_changes(f"{self._order.name}-part{self._parts}")

    def _attach_metrics(self, metrics: tuple[MonitoringInfo, ...]) -> None:
        """Adds the sum of all metrics to the last bundle entry."""
        for number in reversed(range(len(self._entries))):
            entry = self._entries[number]
            if isinstance(entry, BundleReply):
                self._entries[number] = attrs.evolve(entry, metrics=metrics)
                return


def _measure_elapsed_ms(moment: float) -> float:
    return (time.monotonic() - moment) * 1000
