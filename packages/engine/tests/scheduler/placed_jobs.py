"""Simulated job in slots with a simulated clock, which uses the engine's dispatch rules."""

from __future__ import annotations

import attrs

from beam_runner_engine.dispatch.bundle_queue import BundleQueue
from beam_runner_engine.dispatch.parallelism import ParallelismRules
from beam_runner_engine.dispatch.slots import BlockedTimeLimits, FreeSlots, Slot
from beam_runner_engine.dispatch.yielding import compute_yield_time, select_slots_that_must_yield
from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.events import YieldRequested

from .graphs import Job

STAND_BACK, TURN = 0.25, 0.1
PATIENCE = BlockedTimeLimits(blocked=0.7, preparing=10.0, unheard=3.0)


@attrs.define(eq=False)
class StartedPlace(Slot):
    """Slot whose process starts after a delay."""

    is_starting: bool = True


class PlacedJob:
    """Simulated job in slots, with its own clock (seconds)."""

    def __init__(self, job: Job, at_work: ParallelismRules) -> None:
        self.host = job.host
        sources = {stage.name for stage in job.host.graph.stages if stage.splittable}
        self.waiting = BundleQueue(lambda one: one.stage in sources, STAND_BACK)
        self.at_work = at_work
        self.places: list[StartedPlace] = []
        self.now = 0.0
        self._answers = 0
        self.host.start(job.roots)

    def take_in(self) -> None:
        """Queues newly opened bundles."""
        for answer in self.host.answers[self._answers :]:
            for command in answer:
                if isinstance(command, OpenBundles):
                    opened = [one for one in command.bundles if one.number in self.host.open]
                    self.waiting.add_bundles(opened, self.now)
        self._answers = len(self.host.answers)

    def give(self) -> None:
        """Assigns queued bundles to slots."""
        idle = FreeSlots([place for place in self.places if place.is_idle])
        for _ in range(min(self._may_begin(), len(idle), len(self.waiting))):
            bundle = self.waiting.take_next_bundle()
            place = idle.take_slot(bundle)
            place.begin_bundle(bundle, self.now)

    def ask(self, spare: float) -> list[StartedPlace]:
        """Adds and returns the additional slots that the job should request, which have not
        started.
        """
        lacking = self.at_work.count_missing_slots(self.places, len(self.waiting), spare, self.now)
        asked = [StartedPlace() for _ in range(lacking)]
        self.places += asked
        return asked

    def ask_sources(self, keep: int) -> None:
        """Requests that sources release their slots, and sends the answers of the sources
        immediately.
        """
        for place in select_slots_that_must_yield(self.places, self.waiting, self._may_begin):
            if compute_yield_time(place, TURN) <= self.now:
                assert place.running is not None
                place.giving_way, place.asked = True, self.now
                number = place.running.number
                self.host.handle(YieldRequested(number, self.host.open[number].attempt))
                if number in self.host.asked:
                    self.host.answer_split(number, keep)

    def end_one(self, which: int) -> None:
        """Commits a running bundle, or advances processing time if no bundle is running."""
        busy = [place for place in self.places if place.running is not None]
        if busy:
            place = busy[which % len(busy)]
            assert place.running is not None
            number = place.running.number
            place.begin_bundle(None, self.now)
            self.host.complete(number, most=3)
        else:
            assert self.host.scheduler.next_wake is not None
            self.host.tick(self.host.scheduler.next_wake)

    def in_line(self) -> list[int]:
        """Returns the numbers of all running and queued bundles."""
        running = [place.running.number for place in self.places if place.running is not None]
        return sorted([*running, *(one.number for one in self.waiting)])

    def _may_begin(self) -> int:
        return self.at_work.count_startable_bundles(self.places, len(self.waiting), self.now)
