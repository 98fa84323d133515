"""Tests of job admission: jobs start in order, and no job waits forever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.admission import JobAdmission

SECONDS = 10.0


def test_jobs_start_in_order_as_running_jobs_end() -> None:
    turns = JobAdmission(2, SECONDS)
    assert [job for job in "abcde" if turns.try_start_job(job, 0.0)] == ["a", "b"]
    assert turns.try_start_job("a", 0.0), "may ask again"
    turns.remove_job("b")
    assert turns.list_startable_jobs(0.0) == ["c"]
    assert not turns.try_start_job("d", 0.0)
    assert turns.try_start_job("c", 0.0)
    turns.remove_job("d")  # Cancelled while waiting.
    turns.remove_job("a")
    assert turns.list_startable_jobs(0.0) == ["e"]
    assert turns.try_start_job("e", 0.0)


def test_job_start_limit_with_a_long_running_job_starts_other_jobs() -> None:
    turns = JobAdmission(1, SECONDS)
    assert turns.try_start_job("stream", 0.0)
    assert not turns.try_start_job("other", 9.9)
    assert turns.try_start_job("other", 10.0)
    assert not turns.try_start_job("third", 10.0)
    turns.remove_job("other")
    assert turns.try_start_job("third", 10.0)


def test_jobs_without_a_start_limit_start_immediately() -> None:
    turns = JobAdmission(float("inf"), SECONDS)
    assert all(turns.try_start_job(str(number), 0.0) for number in range(1000))


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_started_jobs_stay_in_order_and_within_the_limit(
    most: int, steps: list[tuple[bool, int]]
) -> None:
    """Simulates one step per second: a job asks to start, or ends. Jobs start in order of their
    first request.
    """
    turns = JobAdmission(most, SECONDS)
    line: list[int] = []
    began: dict[int, float] = {}
    for now, (asks, job) in enumerate(steps):
        if asks:
            may_begin = turns.try_start_job(str(job), now)
            if job not in began and job not in line:
                line.append(job)
            counted = sum(now - since < SECONDS for since in began.values())
            assert may_begin == (job in began or job in line[: max(0, most - counted)])
            if may_begin and job in line:
                line.remove(job)
                began[job] = now
        else:
            turns.remove_job(str(job))
            began.pop(job, None)
            line = [one for one in line if one != job]
        counted = sum(now - since < SECONDS for since in began.values())
        assert turns.list_startable_jobs(now) == [
            str(one) for one in line[: max(0, most - counted)]
        ]
