"""Tests of the quotas of users: who runs, who waits, and who begins next."""

from __future__ import annotations

import pytest
from beam_runner_model.jobs import JobSpec, JobState, StateEvent

from beam_runner_jobservices.errors import LimitExceeded
from beam_runner_jobservices.recorder import UnfinishedJob
from beam_runner_jobservices.user_queues import UserQueues
from beam_runner_jobservices.users import Quota


def spec_of(job_id, user="ann"):
    return JobSpec(job_id, "job", b"", {}, "{}", {}, "", user=user)


def make_queues(running=1, waiting=None):
    quotas = {"ann": Quota(running, waiting), "bob": Quota(1)}
    return UserQueues(lambda user: quotas.get(user, Quota())), quotas


def begin(queues):
    return [spec.job_id for spec in queues.start_queued_jobs()]


def test_jobs_without_user_do_not_wait_for_quota():
    queues, _ = make_queues()
    assert all(queues.add_job("", f"job-{number}", {}) for number in range(5))


def test_jobs_waiting_for_quota_start_in_order_as_others_end():
    queues, _ = make_queues(running=2)
    assert [queues.add_job("ann", name, {}) for name in "abcd"] == [True, True, False, False]
    for name in "cd":
        queues.mark_job_waiting(spec_of(name))
    assert begin(queues) == []
    queues.remove_job("b")
    assert begin(queues) == ["c"]
    queues.remove_job("a")
    queues.remove_job("c")
    assert begin(queues) == ["d"]


def test_jobs_of_different_users_do_not_wait_for_each_other():
    queues, _ = make_queues()
    assert [queues.add_job("ann", name, {}) for name in "ab"] == [True, False]
    assert queues.add_job("bob", "c", {})


def test_job_waits_behind_earlier_job_that_is_not_recorded_yet():
    queues, _ = make_queues()
    for name in "abc":
        queues.add_job("ann", name, {})
    queues.mark_job_waiting(spec_of("c"))
    queues.remove_job("a")
    assert begin(queues) == []
    queues.mark_job_waiting(spec_of("b"))
    assert begin(queues) == ["b"]
    queues.remove_job("b")
    assert begin(queues) == ["c"]


@pytest.mark.parametrize("value", [True, "true"])
def test_job_that_replaces_another_job_starts_above_quota(value):
    queues, _ = make_queues(waiting=0)
    update = {"beam:option:update:v1": value}
    assert queues.add_job("ann", "a", {})
    queues.check_user_quota("ann", update)
    assert queues.add_job("ann", "b", update)
    with pytest.raises(LimitExceeded):
        queues.check_user_quota("ann", {"beam:option:update:v1": False})
    queues.remove_job("a")
    assert not queues.add_job("ann", "c", {})


def test_new_job_does_not_overtake_waiting_jobs():
    queues, _ = make_queues()
    for name in "ab":
        queues.add_job("ann", name, {})
    queues.mark_job_waiting(spec_of("b"))
    queues.remove_job("a")
    assert not queues.add_job("ann", "c", {})
    assert begin(queues) == ["b"]


@pytest.mark.parametrize("waiting", [0, 2])
def test_job_above_waiting_limit_is_refused(waiting):
    queues, _ = make_queues(waiting=waiting)
    for number in range(1 + waiting):
        queues.check_user_quota("ann", {})
        queues.add_job("ann", f"job-{number}", {})
    with pytest.raises(LimitExceeded, match="user 'ann' has 1 running jobs"):
        queues.check_user_quota("ann", {})
    queues.remove_job("job-0")
    if waiting:
        queues.mark_job_waiting(spec_of("job-1"))
        assert begin(queues) == ["job-1"]
    queues.check_user_quota("ann", {})


def test_text_of_wait_for_quota_has_reason_and_number_of_jobs_ahead():
    queues, _ = make_queues(running=2)
    for name in "abcde":
        queues.add_job("ann", name, {})
    text = queues.describe_wait("e")
    assert "'ann' has 2 running jobs" in text
    assert text.endswith("ahead: 2")


def test_larger_quota_starts_jobs_in_queue():
    queues, quotas = make_queues()
    for name in "abc":
        queues.add_job("ann", name, {})
        queues.mark_job_waiting(spec_of(name))
    quotas["ann"] = Quota(3)
    assert begin(queues) == ["b", "c"]


def test_job_that_ended_while_waiting_does_not_wait_again():
    queues, _ = make_queues()
    for name in "ab":
        queues.add_job("ann", name, {})
    queues.remove_job("b")
    queues.mark_job_waiting(spec_of("b"))
    assert not queues.is_queued("b")


def restored(job_id, *states, was_running=False):
    entries = tuple(StateEvent(state, 1.0) for state in (JobState.STOPPED, *states))
    return UnfinishedJob(spec_of(job_id), "", "", entries, was_running)


def test_restored_jobs_that_ran_start_before_restored_jobs_that_waited():
    queues, _ = make_queues(running=2)
    queues.restore_jobs(
        [
            restored("waited"),
            restored("drained", JobState.DRAINING),
            restored("began", JobState.STARTING),
            restored("ran", JobState.STARTING, JobState.RUNNING, was_running=True),
            restored("ran too", JobState.STARTING, JobState.RUNNING, was_running=True),
        ]
    )
    assert [queues.is_queued(name) for name in ("waited", "drained")] == [True, True]
    assert not any(queues.is_queued(name) for name in ("began", "ran", "ran too"))
