"""The lanes of one job: worker processes that serve bundles, opened as work waits, closed when idle.

All methods belong to the job's own thread. Times are those of ``time.monotonic``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_engine.dispatch.idling import find_idle_slots, select_slot_to_release
from beam_runner_engine.dispatch.parallelism import Parallelism
from beam_runner_engine.dispatch.places import BlockedTimes, select_slot
from beam_runner_engine.dispatch.waiting import BundleQueue
from beam_runner_engine.dispatch.yielding import compute_turn_end, select_yielding_slots
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed

from beam_runner_runtime.channel.attempts import Attempt, LanePlace, failed_at
from beam_runner_runtime.channel.messages import (
    BundleReply,
    CloseLane,
    Entry,
    ExitNow,
    FromServer,
    LeaveLoop,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.driver.lane import Lane
from beam_runner_runtime.driver.slots import JobSlots
from beam_runner_runtime.driver.watchdog import Claim
from beam_runner_runtime.slowness import Slowness
from beam_runner_runtime.tuning import TUNING

_PATIENCE = BlockedTimes(TUNING.blocked_seconds, TUNING.preparing_seconds, TUNING.unheard_seconds)


@attrs.frozen
class Loss:
    """What went with a process, or with a lane.

    Attributes:
        bundle: that ran there, if one did.
        loop: whether the loop inside a task ran there.
    """

    bundle: Bundle | None = None
    loop: bool = False


class Lanes:
    """Gives bundles to lanes: which one next, in how many, and who gives way to it the engine says.

    Args:
        start: has the lane with this number started.
        order: makes the order to run a bundle.
        loop_order: makes the order to run the loop inside a task.
        cores: how many bundles can use a core at the same time.
        most: how many lanes there may be.
        slots: of the cluster, which other jobs want too.
        is_source: whether a bundle is of a source that would go on for long, and gives way.
        takes_turns: bundles side by side only take turns at one interpreter.

    Attributes:
        alive: the numbers of all lanes that were started and have not ended.
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
        self._parallelism = Parallelism(cores, most, _PATIENCE, takes_turns)
        self._slots = slots
        self._next = 0
        self._lanes: dict[int, Lane] = {}
        self._by_link: dict[WorkerLink, Lane] = {}
        self._waiting = BundleQueue(is_source, TUNING.source_seconds)
        self._slowness = Slowness()
        self._not_before = 0.0
        self.alive: set[int] = set()

    def run(self, bundles: Iterable[Bundle]) -> None:
        """Has bundles run, in their order, as lanes become free."""
        self._waiting.add(bundles, time.monotonic())
        self.dispatch()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not (
            self._waiting or self._loop_waits or any(lane.is_busy for lane in self._lanes.values())
        )

    @property
    def without_place(self) -> int:
        """How many bundles wait, if not all lanes have begun that it was asked for."""
        starting = any(lane.is_starting for lane in self._lanes.values())
        return len(self._waiting) + self._loop_waits if starting else 0

    def resize(self, cores: int, most: int) -> None:
        """The cluster has so many cores now; lanes that are too many stay until they are idle."""
        self._parallelism = attrs.evolve(self._parallelism, cores=cores, most=most)

    def start_none(self, seconds: float) -> None:
        """Starts no lane for so many seconds: the last one could not be had."""
        self._not_before = time.monotonic() + seconds

    def run_loop(self) -> None:
        """Has the loop run in a lane, once nothing else does."""
        self._loop_waits = True
        self.dispatch()

    def loop_left(self, link: WorkerLink, running: Bundle | None) -> None:
        """The loop was left; the bundle that goes on in its lane, if any."""
        lane = self._by_link.get(link)
        if lane is not None:
            lane.loop = False
            lane.begin(running, time.monotonic())

    def abort_loop(self) -> bool:
        """Ends the process that runs the loop; whether one does, else it will not be run."""
        return self._tell_loop(ExitNow())

    def leave_loop(self) -> bool:
        """Asks for the loop to be left; whether one runs, else it will not be run."""
        return self._tell_loop(LeaveLoop())

    def opened(self, number: int, link: WorkerLink) -> Loss:
        """A lane has begun in a process; one that nobody wants any more is closed at once.

        Tells what the lane had run in an earlier process: the lane may be tried again before that
        process is known to be lost.
        """
        self._slots.opened(number)
        lane = self._lanes.get(number)
        if lane is None:
            link.send(CloseLane())
            return Loss()
        loss = self._take(lane)
        lane.link = link
        lane.changed = time.monotonic()
        self._by_link[link] = lane
        return loss

    def progressed(
        self, link: WorkerLink, attempt: Attempt, fraction: float, *, waits: bool | None = None
    ) -> bool:
        """The bundle of a lane tells how far it is; whether that is further than before.

        ``waits``: whether it leaves time to others in its interpreter; None if that is not known.
        """
        lane = self._lane_at(link, attempt)
        if lane is None:
            return False
        takes_turns = self._parallelism.takes_turns
        return lane.record_progress(fraction, waits, time.monotonic(), takes_turns=takes_turns)

    def starts(self, link: WorkerLink, attempt: Attempt) -> None:
        """The bundle of a lane waits for its SDK harness, which is still being started."""
        if lane := self._lane_at(link, attempt):
            lane.prepares = True

    def finished(self, link: WorkerLink, attempt: Attempt) -> None:
        """A lane has answered for its bundle, and takes the next."""
        if lane := self._lane_at(link, attempt):
            lane.running = None
            lane.changed = time.monotonic()

    def lost(self, link: WorkerLink) -> Loss:
        """A process has ended, or is not to be reached; its lane is given up.

        Another one is opened where it is needed: it would be tried again, but the placement may not see
        that the process is lost. If it does, the lane is closed as soon as it opens.
        """
        lane = self._by_link.get(link)
        if lane is None:
            return Loss()
        del self._lanes[lane.number]
        return self._take(lane)

    def give_up(self, link: WorkerLink) -> Loss:
        """Has a process end, and gives its lane up at once."""
        link.send(ExitNow())
        return self.lost(link)

    def ended(self, number: int) -> Loss:
        """A lane has ended, as it was told, or because it failed too often.

        It may tell so before the process is known to be lost.
        """
        self.alive.discard(number)
        self._slots.ended(number)
        lane = self._lanes.pop(number, None)
        return Loss() if lane is None else self._take(lane)

    def claims(self) -> list[tuple[WorkerLink, Claim]]:
        """What is said to run, by process."""
        found = []
        for link, lane in self._by_link.items():
            if lane.is_busy:
                since = lane.began if lane.running is not None else lane.changed
                found.append((link, Claim(since, link.doing, link.doing_since, link.heard)))
        return found

    @property
    def have_loop(self) -> bool:
        """Whether the loop runs in a lane, or is about to."""
        return self._loop_waits or any(lane.loop for lane in self._lanes.values())

    def held(self) -> set[Attempt]:
        """What runs, and what waits for a lane."""
        running = (lane.running for lane in self._lanes.values() if lane.running is not None)
        return {Attempt.of(one) for one in (*running, *self._waiting)}

    def busy(self) -> Iterator[Lane]:
        """The lanes in which something runs."""
        return (lane for lane in self._lanes.values() if lane.is_busy)

    def link_of(self, attempt: Attempt) -> WorkerLink | None:
        """The process that runs a bundle."""
        return next((lane.link for lane in self._lanes.values() if lane.is_at(attempt)), None)

    def place_of(self, link: WorkerLink) -> LanePlace | None:
        """The lane in a process; None if it has none."""
        lane = self._by_link.get(link)
        hello = link.hello
        return None if lane is None else LanePlace(lane.number, hello.host, hello.pid)

    def placed(self, link: WorkerLink, entries: Iterable[Entry]) -> list[Entry]:
        """Returns entries of a process, with its lane in commits and in failures of user code."""
        place = self.place_of(link)
        found: list[Entry] = []
        for entry in entries:
            if isinstance(entry, BundleReply):
                found.append(BundleReply(entry.done, entry.state, entry.metrics, place))
            else:
                found.append(failed_at(entry, place) if isinstance(entry, BundleFailed) else entry)
        return found

    def forget(self, attempts: Iterable[Attempt]) -> None:
        """Forgets bundles that wait; those that run end with what `close` tells."""
        for attempt in attempts:
            self._waiting.discard(attempt.bundle, attempt.attempt)

    def dispatch(self) -> None:
        """Gives waiting bundles to idle lanes, and has more lanes opened if that does not do."""
        if self._slots.is_wanted:
            self._make_room()
        idle = [lane for lane in self._lanes.values() if lane.is_idle]
        if self._loop_waits and idle:
            lane = idle.pop()
            self._loop_waits = False
            lane.begin_loop(time.monotonic())
            lane.send(self._loop_order())
        for _ in range(min(self._may_begin(), len(idle), len(self._waiting))):
            bundle = self._waiting.take()
            lane = select_slot(bundle, idle)
            idle.remove(lane)
            lane.begin(bundle, time.monotonic())
            lane.send(self._order(bundle))
        for _ in range(self._lacking()):
            lane = Lane(self._next)
            self._next += 1
            self._lanes[lane.number] = lane
            self.alive.add(lane.number)
            self._slots.started(lane.number)
            self._start(lane.number)

    @property
    def seconds_to_give_way(self) -> float | None:
        """How long until `take_giving_way` has something to tell; None if not at all."""
        until = min((self._turn_ends(lane) for lane in self._in_the_way()), default=None)
        return None if until is None else max(0.0, until - time.monotonic())

    def take_giving_way(self) -> list[Attempt]:
        """The bundles of sources that are to end, for others to run; tells each once."""
        now = time.monotonic()
        lanes = [lane for lane in self._in_the_way() if self._turn_ends(lane) <= now]
        for lane in lanes:
            lane.giving_way, lane.asked = True, now
        running = [lane.running for lane in lanes if lane.running is not None]
        return [Attempt.of(bundle) for bundle in running]

    def stays(self, attempt: Attempt) -> None:
        """A bundle gave nothing away when it was asked: it is asked again a turn later."""
        for lane in self._lanes.values():
            if lane.is_at(attempt):
                lane.giving_way = False

    def close_idle(self, *, at_once: bool = False) -> None:
        """Closes lanes that had nothing to do for a while, or have nothing to do now."""
        limit = time.monotonic() - (0.0 if at_once else TUNING.lane_idle_seconds)
        for lane in find_idle_slots(self._lanes.values(), limit):
            self._close(lane)

    def close(self) -> list[WorkerLink]:
        """Closes all lanes that are idle, those that are just starting too; forgets what waits.

        Tells the processes in which something still runs: their lanes do not end by that.
        """
        self._waiting.clear()
        self._loop_waits = False
        for lane in list(self._lanes.values()):
            if lane.is_idle:
                self._close(lane)
            elif lane.is_starting:
                del self._lanes[lane.number]
        return list(self._by_link)

    @property
    def are_busy(self) -> bool:
        """Whether after a `close` none are alive but those in which something still runs."""
        return self.alive <= self._lanes.keys()

    def _lane_at(self, link: WorkerLink, attempt: Attempt) -> Lane | None:
        """The lane of a process, if it is at that attempt."""
        lane = self._by_link.get(link)
        return lane if lane is not None and lane.is_at(attempt) else None

    def _tell_loop(self, command: FromServer) -> bool:
        self._loop_waits = False
        loops = [lane for lane in self._lanes.values() if lane.loop]
        for lane in loops:
            lane.send(command)
        return bool(loops)

    def _make_room(self) -> None:
        """Gives up a lane to another job, or asks for the end of what keeps it."""
        lane = select_slot_to_release(self._lanes.values())
        if lane is not None and lane.loop:
            lane.giving_way = True
            lane.send(LeaveLoop())
        elif lane is not None:
            self._close(lane)
            self._slots.gave()

    def _take(self, lane: Lane) -> Loss:
        """Takes the process away from a lane."""
        loss = Loss(lane.running, lane.loop)
        if lane.link is not None:
            self._by_link.pop(lane.link, None)
        lane.running, lane.loop, lane.served, lane.link = None, False, False, None
        return loss

    def _close(self, lane: Lane) -> None:
        lane.send(CloseLane())
        del self._lanes[lane.number]
        self._take(lane)

    def _turn_ends(self, lane: Lane) -> float:
        """Until when a source keeps its lane: on a crowded machine, where a turn costs more, for longer."""
        return compute_turn_end(lane, self._slowness.turn(TUNING.yield_seconds))

    def _in_the_way(self) -> list[Lane]:
        return select_yielding_slots(self._lanes.values(), self._waiting, self._may_begin)

    def _may_begin(self) -> int:
        """How many more bundles may begin now."""
        return self._parallelism.count_startable(
            self._lanes.values(), len(self._waiting), time.monotonic()
        )

    def _lacking(self) -> int:
        """How many more lanes what waits is worth."""
        if not self._slots.may_ask or time.monotonic() < self._not_before:
            return 0
        return self._parallelism.count_missing_slots(
            self._lanes.values(),
            len(self._waiting) + self._loop_waits,
            self._slots.spare,
            time.monotonic(),
        )
