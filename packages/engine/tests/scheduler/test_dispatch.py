"""Jobs of a host that asks the engine what runs next, in how many places, and which source gives way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch import (
    Parallelism,
    Patience,
    Place,
    WaitingBundles,
    in_the_way,
    place_for,
    turn_ends,
)
from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.events import GiveWay

from .graphs import Job, jobs

STAND_BACK, TURN = 0.25, 0.1
PATIENCE = Patience(blocked=0.7, preparing=10.0, unheard=3.0)


class PlacedJob:
    """Runs a simulated job in places, with a clock of its own (s)."""

    def __init__(self, job: Job, at_work: Parallelism) -> None:
        self.host = job.host
        sources = {stage.name for stage in job.host.graph.stages if stage.splittable}
        self.waiting = WaitingBundles(lambda one: one.stage in sources, STAND_BACK)
        self.at_work = at_work
        self.places: list[Place] = []
        self.now = 0.0
        self._answers = 0
        self.host.start(job.roots)

    def place(self) -> None:
        """Takes in what was opened, and gives it to places, of which it makes as many as it is worth."""
        for answer in self.host.answers[self._answers :]:
            for command in answer:
                if isinstance(command, OpenBundles):
                    opened = [one for one in command.bundles if one.number in self.host.open]
                    self.waiting.add(opened, self.now)
        self._answers = len(self.host.answers)
        wanted = len(self.waiting)
        free = [place for place in self.places if not place.is_busy]
        for _ in range(
            self.at_work.lacking(self.places, len(free), wanted, len(self.places) + 8, self.now)
        ):
            self.places.append(Place())
            free.append(self.places[-1])
        for _ in range(min(self._may_begin(), len(free), wanted)):
            bundle = self.waiting.take()
            place = place_for(bundle, free)
            free.remove(place)
            place.begin(bundle, self.now)

    def ask_sources(self, keep: int) -> None:
        """Has sources give way, and answers for them at once."""
        for place in in_the_way(self.places, self.waiting, self._may_begin):
            if turn_ends(place, TURN) <= self.now:
                assert place.running is not None
                place.giving_way, place.asked = True, self.now
                number = place.running.number
                self.host.handle(GiveWay(number, self.host.open[number].attempt))
                if number in self.host.asked:
                    self.host.answer_split(number, keep)

    def end_one(self, which: int) -> None:
        """Commits a bundle that runs, or lets the scheduler's time go by if there is none."""
        busy = [place for place in self.places if place.running is not None]
        if busy:
            place = busy[which % len(busy)]
            assert place.running is not None
            number = place.running.number
            place.begin(None, self.now)
            self.host.complete(number, most=3)
        else:
            assert self.host.scheduler.next_wake is not None
            self.host.tick(self.host.scheduler.next_wake)

    def in_line(self) -> list[int]:
        """All bundles that run or wait to."""
        running = [place.running.number for place in self.places if place.running is not None]
        return sorted([*running, *(one.number for one in self.waiting)])

    def _may_begin(self) -> int:
        return self.at_work.may_begin(self.places, len(self.waiting), self.now)


@given(
    job=jobs(),
    cores=st.integers(1, 3),
    takes_turns=st.booleans(),
    script=st.lists(
        st.tuples(st.floats(0, 2), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=40
    ),
)
def test_jobs_end_in_few_places(
    job: Job, cores: int, takes_turns: bool, script: list[tuple[float, int, int]]
) -> None:
    """All that is open runs in one place or waits, something always runs if anything is open, and jobs end."""
    placed = PlacedJob(job, Parallelism(cores, 2 * cores, PATIENCE, takes_turns))
    for step in range(400):
        pause, which, keep = script[step % len(script)]
        placed.place()
        if placed.host.end is not None:
            return
        assert placed.in_line() == sorted(placed.host.open)
        assert len(placed.places) <= 2 * cores
        assert any(place.is_busy for place in placed.places) == bool(placed.host.open)
        placed.now += pause
        placed.ask_sources(keep)
        placed.end_one(which)
    assert job.unbounded
