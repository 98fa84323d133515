"""Jobs that share the places of a host: each goes on, and each that can end does, whatever the others do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.idling import place_to_give
from beam_runner_engine.dispatch.parallelism import Parallelism
from beam_runner_engine.dispatch.sharing import SharedPlaces
from beam_runner_engine.dispatch.turns import JobTurns

from .graphs import Job, jobs
from .placed_jobs import PATIENCE, PlacedJob, StartedPlace

SLOT_PATIENCE, JOB_TURN = 0.3, 10.0
STEPS = 4000


class SharedHost:
    """Gives its places to the job that has the fewest, of several always to the same; to nobody who has not its turn."""

    def __init__(self, some: list[Job], total: int, cores: int) -> None:
        self.total = total
        self.now = 0.0
        self.shared = SharedPlaces(SLOT_PATIENCE)
        self.turns = JobTurns(total, JOB_TURN)
        at_work = Parallelism(cores, 2 * cores, PATIENCE)
        self.jobs = {str(number): PlacedJob(job, at_work) for number, job in enumerate(some)}
        self.numbers: dict[StartedPlace, int] = {}

    @property
    def held(self) -> dict[str, int]:
        """How many places each job has that is there."""
        return {
            name: sum(not place.is_starting for place in job.places)
            for name, job in self.jobs.items()
        }

    def step(self, which: int, keep: int) -> None:
        """Has each job do what it may, and give up what others are owed."""
        for name, job in list(self.jobs.items()):
            job.now = self.now
            if not self.turns.take(name, self.now):
                continue
            job.take_in()
            if job.host.end is not None:
                self._end(name)
                continue
            if self.shared.is_owed_by(name, self.now):
                self._make_room(name, job)
            job.give()
            asked = job.ask(self.total - self.shared.taken) if self.shared.may_ask(name) else ()
            for place in asked:
                self.numbers[place] = len(self.numbers)
                self.shared.asked(name, self.numbers[place], self.now)
            job.ask_sources(keep)
            if job.in_line() and not any(place.is_busy for place in job.places):
                continue  # all that it could do waits for a place
            job.end_one(which)
        self._start()

    def _start(self) -> None:
        """Places that are free begin."""
        while (held := self.held) and sum(held.values()) < self.total:
            for name in sorted(held, key=held.__getitem__):
                asked = [place for place in self.jobs[name].places if place.is_starting]
                if asked:
                    asked[0].is_starting, asked[0].changed = False, self.now
                    self.shared.got(name, self.numbers[asked[0]])
                    break
            else:
                return

    def _make_room(self, name: str, job: PlacedJob) -> None:
        place = place_to_give(job.places)
        if place is not None:
            job.places.remove(place)
            self.shared.gave(name, self.now)
            self.shared.gone(name, self.numbers[place])

    def _end(self, name: str) -> None:
        del self.jobs[name]
        self.shared.forget(name)
        self.turns.leave(name)


@given(
    some=st.lists(jobs(), min_size=2, max_size=3),
    total=st.integers(1, 4),
    cores=st.integers(1, 2),
    script=st.lists(
        st.tuples(st.floats(0.2, 2), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=20
    ),
)
def test_each_job_goes_on_and_ends_if_it_can(
    some: list[Job], total: int, cores: int, script: list[tuple[float, int, int]]
) -> None:
    host = SharedHost(some, total, cores)
    bounded = {str(number) for number, job in enumerate(some) if not job.unbounded}
    for step in range(STEPS):
        if not bounded & host.jobs.keys():
            return
        pause, which, keep = script[step % len(script)]
        host.step(which, keep)
        host.now += pause
        assert sum(host.held.values()) <= total
    raise AssertionError(f"these never end: {sorted(bounded & host.jobs.keys())}")
