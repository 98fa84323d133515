"""Tests of jobs: any reports from any threads lead to exactly one end."""

from __future__ import annotations

import itertools
import threading

import pytest
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import (
    Importance,
    JobMetrics,
    JobSpec,
    JobState,
    MessageLine,
    MetricCell,
    StateEvent,
)
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_jobservices.errors import IllegalTransition
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.recorder import InMemoryRecorder
from beam_runner_jobservices.states import TRANSITIONS

from .fakes import Clock

SPEC = JobSpec("word-1", "word", b"", {}, "{}", {}, "localhost:1")


class Handle:
    def __init__(self, error=None):
        self.cancels = 0
        self.drains = 0
        self.asked = 0
        self.error = error

    def cancel(self):
        self.cancels += 1
        if self.error:
            raise self.error

    def drain(self):
        self.drains += 1
        if self.error:
            raise self.error

    def get_metrics(self):
        self.asked += 1
        return JobMetrics(attempted=(MetricCell("urn", "type", b"%d" % self.asked),))


@pytest.fixture
def ends():
    return []


@pytest.fixture
def job(ends):
    return make(ends)


def make(ends):
    history = JobHistory(ServerLimits(), [StateEvent(JobState.STOPPED, 1.0)])
    recorder = InMemoryRecorder()
    return Job(
        SPEC,
        history,
        recorder=recorder,
        clock=Clock(),
        on_end=lambda: ends.append(1),
        on_ended=lambda job: None,
    )


def names(job):
    return [event.state.name for event in job.history.list_states()]


def texts(job):
    entries = job.history.follow_entries(lambda: False)
    return [entry.text for entry in entries if not isinstance(entry, StateEvent)]


def report(job, state):
    """Returns whether the job entered `state`. An illegal report changes nothing."""
    try:
        return job.report_state(state)
    except IllegalTransition:
        return False


reports = st.lists(st.sampled_from([*JobState, "cancel", "drain", "message"]), max_size=30)


@given(reports)
def test_job_history_follows_transition_table_and_ends_once(actions):
    ends = []
    job = make(ends)
    for action in actions:
        before = job.history.current.state
        if action == "cancel":
            state = job.cancel()
            assert state.is_terminal or state is JobState.CANCELLING
        elif action == "drain":
            state = job.drain()
            assert state.is_terminal or state in (JobState.DRAINING, JobState.CANCELLING)
        elif action == "message":
            job.report_message(Importance.BASIC, "text")
        else:
            entered = report(job, action)
            assert entered == (before is not job.history.current.state)
        if before.is_terminal:
            assert job.history.current.state is before
    states = [event.state for event in job.history.list_states()]
    assert states[0] is JobState.STOPPED
    assert all(after in TRANSITIONS[state] for state, after in itertools.pairwise(states))
    assert sum(state.is_terminal for state in states) == len(ends) <= 1


def test_concurrent_terminal_reports_leave_one_terminal_state(ends, job):
    job.mark_started()
    job.report_state(JobState.RUNNING)
    together = threading.Barrier(24)
    taken = []

    def end(state):
        together.wait()
        taken.append(job.report_state(state, state.name))

    kinds = [JobState.DONE, JobState.FAILED, JobState.CANCELLED]
    threads = [threading.Thread(target=end, args=(kinds[n % 3],)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == len(ends) == 1
    assert texts(job) == [job.history.current.state.name]


def test_failure_reason_precedes_terminal_state(job):
    job.report_message(Importance.ERROR, "a symptom")
    job.report_state(JobState.FAILED, "the cause")
    entries = list(job.history.follow_entries(lambda: False))
    assert entries[-2].text == "the cause"
    assert entries[-2].importance is Importance.ERROR
    assert entries[-1].state is JobState.FAILED


def test_messages_name_their_transform_and_end_with_job(job):
    job.report_message(Importance.BASIC, "hello", transform="Read/ParDo(Split)")
    job.report_state(JobState.FAILED)
    job.report_message(Importance.BASIC, "too late")
    assert texts(job) == ["[Read/ParDo(Split)] hello"]


def test_lines_logged_together_become_separate_messages(job):
    job.report_messages(
        [MessageLine(Importance.BASIC, "one", "Read"), MessageLine(Importance.ERROR, "other")]
    )
    job.report_messages([])
    job.report_state(JobState.FAILED)
    job.report_messages([MessageLine(Importance.BASIC, "too late")])
    assert texts(job) == ["[Read] one", "other"]


def test_message_with_invalid_unicode_is_shown_with_replacements(job):
    job.report_message(Importance.BASIC, "broken \ud800 text")
    job.report_state(JobState.FAILED)
    assert texts(job) == ["broken ? text"]


def test_cancelled_job_ends_after_report_of_executor(job):
    handle = Handle()
    job.mark_started()
    job.set_executor_handle(handle)
    assert job.cancel() is JobState.CANCELLING
    assert job.cancel() is JobState.CANCELLING
    assert handle.cancels == 2
    assert not job.report_state(JobState.RUNNING)
    assert job.report_state(JobState.CANCELLED)
    assert names(job) == ["STOPPED", "STARTING", "CANCELLING", "CANCELLED"]
    assert job.cancel() is JobState.CANCELLED
    assert handle.cancels == 2


def test_cancel_before_executor_returned_handle_is_forwarded_to_handle(job):
    job.mark_started()
    job.cancel()
    handle = Handle()
    job.set_executor_handle(handle)
    assert handle.cancels == 1


def test_drained_job_ends_after_report_of_executor(job):
    handle = Handle()
    job.mark_started()
    job.set_executor_handle(handle)
    assert job.drain() is JobState.DRAINING
    assert not job.report_state(JobState.RUNNING)
    assert job.report_state(JobState.DRAINED)
    assert names(job) == ["STOPPED", "STARTING", "DRAINING", "DRAINED"]
    assert job.drain() is JobState.DRAINED
    assert handle.drains == 1


def test_drain_before_executor_returned_handle_is_forwarded_to_handle(job):
    assert job.drain() is JobState.DRAINING
    assert not job.report_state(JobState.STARTING)
    handle = Handle()
    job.set_executor_handle(handle)
    assert (handle.drains, handle.cancels) == (1, 0)


def test_draining_job_can_be_cancelled_but_not_vice_versa(job):
    handle = Handle()
    job.mark_started()
    job.set_executor_handle(handle)
    job.drain()
    assert job.cancel() is JobState.CANCELLING
    assert job.drain() is JobState.CANCELLING
    assert handle.drains == 1


@pytest.mark.parametrize(
    ("wish", "state", "told"),
    [(Job.cancel, JobState.CANCELLING, "cancelled"), (Job.drain, JobState.DRAINING, "drained")],
)
def test_cancel_or_drain_that_fails_in_executor_raises(job, wish, state, told):
    job.mark_started()
    job.set_executor_handle(Handle(error=ValueError("no way")))
    assert wish(job) is state
    job.report_state(JobState.FAILED)
    assert texts(job) == [f"the job can't be {told}: ValueError: no way"]


def attempted(job):
    return [info.payload for info in job.get_metrics().attempted]


def test_job_metrics_come_from_handle_until_job_ends(job):
    assert job.get_metrics() == JobMetrics()
    handle = Handle()
    job.mark_started()
    job.set_executor_handle(handle)
    assert attempted(job) == [b"1"]
    assert attempted(job) == [b"2"]
    job.report_state(JobState.DONE)
    assert attempted(job) == attempted(job) == [b"3"]
    job.report_state(JobState.DONE)
    assert attempted(job) == [b"3"]


def test_job_that_ends_before_handle_exists_has_metrics_of_handle(job):
    job.mark_started()
    job.report_state(JobState.DONE)
    job.set_executor_handle(Handle())
    assert attempted(job) == attempted(job) == [b"1"]


def test_job_with_failing_metrics_ends(job):
    class Failing(Handle):
        def get_metrics(self):
            raise ValueError

    job.mark_started()
    job.set_executor_handle(Failing())
    assert job.report_state(JobState.DONE)
    assert job.get_metrics() == JobMetrics()


def test_job_suspended_by_server_stop_keeps_its_state(ends, job):
    job.mark_started()
    assert job.suspend()
    job.report_message(Importance.BASIC, "not heard")
    for state in (JobState.RUNNING, JobState.DONE, JobState.FAILED, JobState.STOPPED):
        assert not job.report_state(state, "not heard")
    with pytest.raises(Unavailable, match="cancel the job after the server has restarted"):
        job.cancel()
    with pytest.raises(Unavailable, match="drain the job after the server has restarted"):
        job.drain()
    assert names(job) == ["STOPPED", "STARTING"]
    assert texts_so_far(job) == ends == []


def texts_so_far(job):
    entries, _ = job.history.read_batch(0)
    return [entry.text for entry in entries if not isinstance(entry, StateEvent)]


def test_finished_job_does_not_count_as_suspended(job):
    job.report_state(JobState.FAILED)
    assert not job.suspend()
