"""Property tests of jobs that share slots: each job progresses, and each bounded job ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.admission import JobAdmission
from beam_runner_engine.dispatch.idle_slots import select_slot_to_release
from beam_runner_engine.dispatch.parallelism import ParallelismRules
from beam_runner_engine.dispatch.slot_sharing import SlotSharing

from .graphs import Job, jobs
from .placed_jobs import PATIENCE, PlacedJob, StartedPlace

SLOT_PATIENCE, JOB_TURN = 0.3, 10.0
STEPS = 4000


class SharedHost:
    """Simulated caller that gives free slots to the waiting job with the fewest slots, if the limit
    on job starts permits.
    """

    def __init__(self, some: list[Job], total: int, cores: int) -> None:
        self.total = total
        self.now = 0.0
        self.shared = SlotSharing(SLOT_PATIENCE)
        self.turns = JobAdmission(total, JOB_TURN)
        at_work = ParallelismRules(cores, 2 * cores, PATIENCE)
        self.jobs = {str(number): PlacedJob(job, at_work) for number, job in enumerate(some)}
        self.numbers: dict[StartedPlace, int] = {}

    @property
    def held(self) -> dict[str, int]:
        """Returns the number of started slots of each job."""
        return {
            name: sum(not place.is_starting for place in job.places)
            for name, job in self.jobs.items()
        }

    def step(self, which: int, keep: int) -> None:
        """Runs one step of each job, and releases slots that jobs owe to other jobs."""
        for name, job in list(self.jobs.items()):
            job.now = self.now
            if not self.turns.try_start_job(name, self.now):
                continue
            job.take_in()
            if job.host.end is not None:
                self._end(name)
                continue
            if self.shared.must_release_slot(name, self.now):
                self._make_room(name, job)
            job.give()
            asked = (
                job.ask(self.total - self.shared.taken_slot_count)
                if self.shared.can_request_slot(name)
                else ()
            )
            for place in asked:
                self.numbers[place] = len(self.numbers)
                self.shared.record_request(name, self.numbers[place], self.now)
            job.ask_sources(keep)
            if job.in_line() and not any(place.is_busy for place in job.places):
                continue  # All work of the job waits for a slot.
            job.end_one(which)
        self._start()

    def _start(self) -> None:
        """Starts free slots."""
        while (held := self.held) and sum(held.values()) < self.total:
            for name in sorted(held, key=held.__getitem__):
                asked = [place for place in self.jobs[name].places if place.is_starting]
                if asked:
                    asked[0].is_starting, asked[0].changed = False, self.now
                    self.shared.record_slot(name, self.numbers[asked[0]])
                    break
            else:
                return

    def _make_room(self, name: str, job: PlacedJob) -> None:
        place = select_slot_to_release(job.places)
        if place is not None:
            job.places.remove(place)
            self.shared.record_release(name, self.now)
            self.shared.remove_slot(name, self.numbers[place])

    def _end(self, name: str) -> None:
        del self.jobs[name]
        self.shared.remove_job(name)
        self.turns.remove_job(name)


@given(
    some=st.lists(jobs(), min_size=2, max_size=3),
    total=st.integers(1, 4),
    cores=st.integers(1, 2),
    script=st.lists(
        st.tuples(st.floats(0.2, 2), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=20
    ),
)
def test_jobs_sharing_slots_progress_and_end(
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
