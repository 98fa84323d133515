"""Lanes of one job: worker processes that run bundles one after the other. Lanes open for waiting
bundles and close when idle.

Only the job's thread can call the methods. Times are from ``time.monotonic``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_engine.dispatch.bundle_queue import BundleQueue
from beam_runner_engine.dispatch.idle_slots import find_idle_slots, select_slot_to_release
from beam_runner_engine.dispatch.parallelism import ParallelismRules
from beam_runner_engine.dispatch.slots import BlockedTimeLimits, FreeSlots
from beam_runner_engine.dispatch.yielding import compute_yield_time, select_slots_that_must_yield
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.attempts import Attempt, LanePlace
from beam_runner_runtime.channel.messages import (
    CloseLane,
    Entry,
    ExitProcess,
    FromServer,
    LeaveLoop,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.cpu_contention import CpuSlowdown
from beam_runner_runtime.tuning import TUNING

from beam_runner_driver.lanes.lane import Lane, add_lane_to_entries
from beam_runner_driver.lanes.lost_work import LostWork
from beam_runner_driver.lanes.slots import JobSlots
from beam_runner_driver.lanes.watchdog import AssignedWork

_PATIENCE = BlockedTimeLimits(
    TUNING.blocked_seconds, TUNING.preparing_seconds, TUNING.unheard_seconds
)

_BLOCKED_CHECK_SECONDS = 0.05
"""Time between two counts of blocked lanes. A count looks at all lanes, which can be thousands."""


class LaneDispatcher:
    """Dispatcher that assigns bundles to lanes (worker processes that run bundles in turn). The
    engine decides the order, the parallelism, and when a source gives up its lane.

    Args:
        start: function that starts the lane with this number.
        order: function that returns the order to run a bundle.
        loop_order: function that returns the order to run the scheduler in a worker process.
        cores: number of bundles that can use a core at the same time.
        most: maximum number of lanes.
        slots: slots of the cluster, shared with other jobs.
        is_source: function that returns whether a bundle belongs to a long-running source, which
            gives up its lane to waiting bundles.
        takes_turns: whether parallel bundles share one interpreter, and so run no faster.

    Attributes:
        alive: numbers of all lanes that have started and not ended.
    """

    def __init__(
        self,
        start: Callable[[int], None],
        order: Callable[[Bundle], FromServer],
        loop_order: Callable[[], FromServer],
        cores: int,
        most: int,
        slots: JobSlots,
        is_source: Callable[[Bundle], bool] = lambda _: False,
        *,
        takes_turns: bool = False,
    ) -> None:
        self._start = start
        self._order = order
        self._loop_order = loop_order
        self._loop_waits = False
        self._parallelism = ParallelismRules(cores, most, _PATIENCE, takes_turns)
        self._slots = slots
        self._next = 0
        self._lanes: dict[int, Lane] = {}
        self._by_link: dict[WorkerLink, Lane] = {}
        self._waiting = BundleQueue(is_source, TUNING.source_seconds)
        self._slowness = CpuSlowdown()
        self._not_before = 0.0
        self._next_idle_check = 0.0
        self._next_blocked_check = 0.0
        self.alive: set[int] = set()

    def queue_bundles(self, bundles: Iterable[Bundle]) -> None:
        """Queues bundles, and runs them in order as lanes become free."""
        self._waiting.add_bundles(bundles, time.monotonic())
        self.assign_bundles()

    @property
    def is_idle(self) -> bool:
        """Whether no bundle and no scheduler loop runs in a lane or waits for a lane."""
        return not (
            self._waiting or self._loop_waits or any(lane.is_busy for lane in self._lanes.values())
        )

    @property
    def bundles_awaiting_lane_start(self) -> int:
        """Number of bundles that wait for a lane while requested lanes still start; 0 if no lane starts."""
        starting = any(lane.is_starting for lane in self._lanes.values())
        return len(self._waiting) + self._loop_waits if starting else 0

    @property
    def core_count(self) -> int:
        """Number of bundles of the job that can use a core at once."""
        return self._parallelism.cores

    def set_core_count(self, cores: int, most: int) -> None:
        """Sets the number of cores and the maximum number of lanes. Surplus lanes stay until they are idle."""
        self._parallelism = attrs.evolve(self._parallelism, cores=cores, most=most)

    def pause_lane_starts(self, seconds: float) -> None:
        """Pauses the start of lanes for `seconds` after a failed start."""
        self._not_before = time.monotonic() + seconds

    def queue_loop(self) -> None:
        """Runs the scheduler loop in a lane (the loop inside a task) as soon as no bundle runs."""
        self._loop_waits = True
        self.assign_bundles()

    def handle_loop_end(self, link: WorkerLink, running: Bundle | None) -> None:
        """Handles the end of a scheduler loop. `running` is the bundle that continues, if any."""
        lane = self._by_link.get(link)
        if lane is not None:
            lane.loop = False
            lane.begin_bundle(running, time.monotonic())

    def abort_loop(self) -> bool:
        """Ends the process that runs the scheduler loop. If no process runs the loop, removes it
        from the queue and returns False.
        """
        return self._send_to_loop(ExitProcess())

    def request_loop_end(self) -> bool:
        """Asks for the end of the loop. If no process runs the loop, dequeues it and returns False."""
        return self._send_to_loop(LeaveLoop())

    def handle_opened_lane(self, number: int, link: WorkerLink) -> LostWork:
        """Handles a lane that opened in a process. Closes the lane immediately if the job no longer
        needs the lane.

        Returns the lost work of the lane's earlier process: Spark can retry a lane before the
        server notices the loss of that process.
        """
        self._slots.record_received_slot(number)
        lane = self._lanes.get(number)
        if lane is None:
            link.send(CloseLane())
            return LostWork()
        loss = self._remove_lane_process(lane)
        lane.link = link
        lane.changed = time.monotonic()
        self._by_link[link] = lane
        return loss

    def record_progress(
        self, link: WorkerLink, attempt: Attempt, fraction: float, *, waits: bool | None = None
    ) -> bool:
        """Records the progress of a lane's bundle. Returns whether the bundle made progress.

        ``waits`` is whether user code waits without using the CPU, so that other threads of the
        interpreter can run; None if unknown.
        """
        lane = self._find_lane_of_attempt(link, attempt)
        if lane is None:
            return False
        takes_turns = self._parallelism.takes_turns
        return lane.record_progress(fraction, waits, time.monotonic(), takes_turns=takes_turns)

    def record_harness_start(self, link: WorkerLink, attempt: Attempt) -> None:
        """Records that the bundle of a lane waits for its SDK harness to start."""
        if lane := self._find_lane_of_attempt(link, attempt):
            lane.prepares = True

    def record_bundle_end(self, link: WorkerLink, attempt: Attempt) -> None:
        """Records the end of a lane's bundle, so that the lane can take the next bundle."""
        if lane := self._find_lane_of_attempt(link, attempt):
            lane.running = None
            lane.changed = time.monotonic()

    def handle_process_exit(self, link: WorkerLink) -> LostWork:
        """Handles an exited or unreachable process: removes its lane, and returns the bundle or
        loop that the lane ran.

        Spark retries the lane only if Spark also notices the loss. Therefore, the job opens another
        lane if necessary, and closes a retried lane as soon as it opens.
        """
        lane = self._by_link.get(link)
        if lane is None:
            return LostWork()
        del self._lanes[lane.number]
        return self._remove_lane_process(lane)

    def abandon_process(self, link: WorkerLink) -> LostWork:
        """Ends a process, removes its lane without waiting for the exit, and returns the bundle or
        loop that the lane ran.
        """
        link.send(ExitProcess())
        return self.handle_process_exit(link)

    def handle_lane_end(self, number: int) -> LostWork:
        """Handles the end of a lane, which can come before the loss of its process. Returns the lost work."""
        self.alive.discard(number)
        self._slots.count_released_slot(number)
        lane = self._lanes.pop(number, None)
        return LostWork() if lane is None else self._remove_lane_process(lane)

    def list_assignments(self) -> list[tuple[WorkerLink, AssignedWork]]:
        """Returns the bundle or loop that the server assigned to each process."""
        found = []
        for link, lane in self._by_link.items():
            if lane.is_busy:
                since = lane.began if lane.running is not None else lane.changed
                found.append((link, AssignedWork(since, link.doing, link.doing_since, link.heard)))
        return found

    @property
    def has_loop(self) -> bool:
        """Whether the loop runs in a lane or waits for a lane."""
        return self._loop_waits or any(lane.loop for lane in self._lanes.values())

    def list_running_and_queued_attempts(self) -> set[Attempt]:
        """Returns the attempts at bundles that run in a lane or wait for a lane."""
        running = (lane.running for lane in self._lanes.values() if lane.running is not None)
        return {Attempt.from_bundle(one) for one in (*running, *self._waiting)}

    def list_busy_lanes(self) -> Iterator[Lane]:
        """Returns the lanes that run a bundle or the loop."""
        return (lane for lane in self._lanes.values() if lane.is_busy)

    def find_process(self, attempt: Attempt) -> WorkerLink | None:
        """Returns the process that runs an attempt, or None."""
        return next(
            (lane.link for lane in self._lanes.values() if lane.runs_attempt(attempt)), None
        )

    def get_lane_record(self, link: WorkerLink) -> LanePlace | None:
        """Returns the record of a process's lane, or None if the process has no lane."""
        lane = self._by_link.get(link)
        hello = link.hello
        return None if lane is None else LanePlace(lane.number, hello.host, hello.pid)

    def add_lane_to_entries(self, link: WorkerLink, entries: Iterable[Entry]) -> list[Entry]:
        """Returns journal entries from a process, with the process's lane added."""
        return add_lane_to_entries(entries, self.get_lane_record(link))

    def remove_queued_attempts(self, attempts: Iterable[Attempt]) -> None:
        """Removes waiting attempts. Running attempts end with the processes that `close_lanes` returns."""
        self._waiting.remove_bundles([(one.bundle, one.attempt) for one in attempts])

    def assign_bundles(self) -> None:
        """Assigns waiting bundles to idle lanes, and opens more lanes if necessary."""
        if self._slots.must_release_slot:
            self._release_slot()
        if not self._waiting and not self._loop_waits:
            return
        idle = FreeSlots([lane for lane in self._lanes.values() if lane.is_idle])
        if self._loop_waits and idle:
            lane = idle.take_slot()
            self._loop_waits = False
            lane.begin_loop(time.monotonic())
            lane.send(self._loop_order())
        for _ in range(min(self._count_startable_bundles(), len(idle), len(self._waiting))):
            bundle = self._waiting.take_next_bundle()
            lane = idle.take_slot(bundle)
            lane.begin_bundle(bundle, time.monotonic())
            lane.send(self._order(bundle))
        for _ in range(self._count_lanes_to_start()):
            lane = Lane(self._next)
            self._next += 1
            self._lanes[lane.number] = lane
            self.alive.add(lane.number)
            self._slots.record_requested_slot(lane.number)
            self._start(lane.number)

    @property
    def seconds_to_next_yield(self) -> float | None:
        """Seconds until a source bundle must give up its lane; None if no source must."""
        until = min(
            (self._compute_yield_time(lane) for lane in self._find_yielding_lanes()), default=None
        )
        return None if until is None else max(0.0, until - time.monotonic())

    def take_yielding_bundles(self) -> list[Attempt]:
        """Returns the source bundles that must end so that other bundles can run. Returns each bundle once."""
        now = time.monotonic()
        lanes = [
            lane for lane in self._find_yielding_lanes() if self._compute_yield_time(lane) <= now
        ]
        for lane in lanes:
            lane.giving_way, lane.asked = True, now
        return [Attempt.from_bundle(lane.running) for lane in lanes if lane.running is not None]

    def record_failed_yield(self, attempt: Attempt) -> None:
        """Handles a source bundle that can't split yet. The server asks again after a time slice."""
        for lane in self._lanes.values():
            if lane.runs_attempt(attempt):
                lane.giving_way = False

    def close_idle_lanes(self, *, at_once: bool = False) -> None:
        """Closes lanes that are idle for `TUNING.lane_idle_seconds`, or all idle lanes if `at_once` is true."""
        # A job can have thousands of lanes, so don't look at them in every round.
        now = time.monotonic()
        if now < self._next_idle_check and not at_once:
            return
        self._next_idle_check = now + TUNING.lane_idle_seconds / 10
        limit = now - (0.0 if at_once else TUNING.lane_idle_seconds)
        for lane in find_idle_slots(self._lanes.values(), limit):
            self._close_lane(lane)

    def close_lanes(self) -> list[WorkerLink]:
        """Closes all idle lanes, abandons lanes that still start, and removes all waiting bundles.

        Returns the processes that still run a bundle or the loop. Their lanes stay open.
        """
        self._waiting.remove_all_bundles()
        self._loop_waits = False
        for lane in list(self._lanes.values()):
            if lane.is_idle:
                self._close_lane(lane)
            elif lane.is_starting:
                del self._lanes[lane.number]
        return list(self._by_link)

    @property
    def has_only_busy_lanes(self) -> bool:
        """Whether all remaining lanes run a bundle or the loop, after a call of `close_lanes`."""
        return self.alive <= self._lanes.keys()

    def _find_lane_of_attempt(self, link: WorkerLink, attempt: Attempt) -> Lane | None:
        """Returns the lane of a process if the lane runs this attempt."""
        lane = self._by_link.get(link)
        return lane if lane is not None and lane.runs_attempt(attempt) else None

    def _send_to_loop(self, command: FromServer) -> bool:
        self._loop_waits = False
        loops = [lane for lane in self._lanes.values() if lane.loop]
        for lane in loops:
            lane.send(command)
        return bool(loops)

    def _release_slot(self) -> None:
        """Releases a slot for another job: closes an idle lane, or asks the loop inside a task to end."""
        lane = select_slot_to_release(self._lanes.values())
        if lane is not None and lane.loop:
            lane.giving_way = True
            lane.send(LeaveLoop())
        elif lane is not None:
            self._close_lane(lane)
            self._slots.record_released_slot()

    def _remove_lane_process(self, lane: Lane) -> LostWork:
        """Removes the process from a lane, and returns the bundle or loop that the lane ran."""
        loss = LostWork(lane.running, lane.loop, lane.link)
        if lane.link is not None:
            self._by_link.pop(lane.link, None)
        lane.running, lane.loop, lane.served, lane.link = None, False, False, None
        return loss

    def _close_lane(self, lane: Lane) -> None:
        lane.send(CloseLane())
        del self._lanes[lane.number]
        self._remove_lane_process(lane)

    def _compute_yield_time(self, lane: Lane) -> float:
        """Returns the time at which a source must give up its lane. Time slices are longer on an overloaded machine."""
        return compute_yield_time(lane, self._slowness.compute_bundle_seconds(TUNING.yield_seconds))

    def _find_yielding_lanes(self) -> list[Lane]:
        return select_slots_that_must_yield(
            self._lanes.values(), self._waiting, self._count_startable_bundles
        )

    def _count_startable_bundles(self) -> int:
        """Returns the number of additional bundles that may start now."""
        return self._parallelism.count_startable_bundles(
            self._lanes.values(), len(self._waiting), time.monotonic()
        )

    def _count_lanes_to_start(self) -> int:
        """Returns the number of lanes to start for the waiting bundles."""
        wanted = len(self._waiting) + self._loop_waits
        now, is_full = time.monotonic(), len(self._lanes) >= self._parallelism.cores
        if not wanted or not self._slots.can_request_lanes or now < self._not_before:
            return 0
        if is_full and now < self._next_blocked_check:
            return 0
        missing = self._parallelism.count_missing_slots(
            self._lanes.values(), wanted, self._slots.free_slots, now
        )
        if is_full and not missing:
            self._next_blocked_check = now + _BLOCKED_CHECK_SECONDS
        return missing
