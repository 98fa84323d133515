from __future__ import annotations

import json

import attrs
import pytest
from beam_runner_model.failures import FailedBundle, FailureCause, JobFailure, JobFailureKind
from beam_runner_model.jobs import Importance, JobMessage, JobState, StateEvent

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.error_log import ErrorLog, JobErrors, collect_errors
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.observation_json import decode_json, encode_json, make_record
from beam_runner_jobservices.step_names import StepNames

from .fakes import FakeExecutor

NAMES = StepNames({"t3": "Count"})
MOST_BYTES = 4 << 20


def text(line: int = 4, kind: str = "ValueError: no") -> str:
    return (
        f"{kind} [while running 'Count']\nTraceback (most recent call last):\n"
        f'  File "/home/me/mine.py", line {line}, in parse\n    int(text)\n{kind}'
    )


def error(number: int, words: str) -> JobMessage:
    return JobMessage(str(number), "2026-11-23T02:22:37.232+00:00", Importance.ERROR, words)


def log(errors: JobErrors | None = None) -> ErrorLog:
    return ErrorLog(lambda: NAMES, errors)


def test_errors_raised_by_same_code_line_are_one_group() -> None:
    same = [error(n, text(4, f"ValueError: {n}")) for n in range(1, 4)]
    other = error(4, text(5))
    quiet = attrs.evolve(error(5, "no error"), importance=Importance.WARNING)
    found = log().read_messages([*same, other, quiet])
    assert [one.count for one in found.groups] == [3, 1]
    assert found.groups[0].failure.text == "3", "the latest is shown"
    foreign = [attrs.evolve(one, message_id="x") for one in (*same, other, quiet)]
    assert collect_errors(foreign, NAMES).groups == found.groups


def failed(number: int, kind: FailureCause = FailureCause.USER_CODE) -> JobMessage:
    """Returns a message of a failed attempt that is followed by a retry."""
    record = FailedBundle("s", 7, ("Count",), 1, kind, "Count", "ValueError: no", "'x'")
    warning = attrs.evolve(error(number, f"whatever: {text()}"), importance=Importance.WARNING)
    return attrs.evolve(warning, record=record)


def test_failed_attempts_before_retry_are_counted() -> None:
    (found,) = log().read_messages([failed(1), error(2, text())]).groups
    assert (found.count, found.retried, found.failure.step) == (2, 1, "t3")


def test_failure_of_attempt_has_element_and_cause_of_its_record() -> None:
    (found,) = log().read_messages([failed(1, FailureCause.LOST_PROCESS)]).groups
    assert (found.failure.element, found.failure.cause) == ("'x'", "lost_process")


def test_error_log_has_element_and_cause_of_failure_that_ended_job() -> None:
    record = FailedBundle("s", 7, kind=FailureCause.USER_CODE, step="Count", element="'x'")
    ended = attrs.evolve(error(1, text()), record=JobFailure(JobFailureKind.BUNDLE, "no", record))
    stuck = attrs.evolve(
        error(2, "it is stuck"), record=JobFailure(JobFailureKind.STUCK, "it is stuck")
    )
    first, second = log().read_messages([ended, stuck]).groups
    assert (first.failure.step, first.failure.element) == ("t3", "'x'")
    assert (first.failure.cause, second.failure.cause) == ("user_code", "stuck")
    assert (second.failure.text, second.retried) == ("it is stuck", 0)


def test_warning_count_excludes_failed_attempts_of_user_code() -> None:
    quiet = attrs.evolve(error(1, "slow"), importance=Importance.WARNING)
    last = attrs.evolve(quiet, message_id="4", text="[Count] slower", transform="Count")
    away = failed(3, FailureCause.UNAVAILABLE)
    found = log().read_messages([quiet, failed(2), away, last, error(5, text())])
    assert found.warnings == 3
    assert found.last_warning is not None
    assert (found.last_warning.step, found.last_warning.text) == ("Count", "slower")
    after_a_restart = log(make_record(JobErrors, decode_json(encode_json(found))))
    more = after_a_restart.read_messages([attrs.evolve(last, message_id="6")])
    assert (more.warnings, len(more.groups)) == (4, 1)


def test_error_message_received_twice_is_counted_once() -> None:
    taken = log()
    messages = [error(number, text()) for number in range(1, 6)]
    for end in (2, 2, 5, 5):
        taken.read_messages(messages[:end])
    assert [one.count for one in taken.errors.groups] == [5]
    after_a_restart = log(taken.errors)
    assert after_a_restart.read_messages([*messages, error(6, text())]).groups[0].count == 6


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\ud83d"])
def test_error_response_stays_small_for_large_errors(character: str) -> None:
    taken = log()
    long = character * 20_000
    found = taken.read_messages(
        error(n, f"{text(n)}\n{long}: {long}\n{long}") for n in range(1, 251)
    )
    assert found.groups and found.dropped == 250 - len(found.groups)
    assert found.groups[-1].failure.frames[0].line == 250
    sent = encode_json(found)
    assert len(sent) < MOST_BYTES
    assert make_record(JobErrors, decode_json(sent)) == found


def test_error_log_retains_errors_of_dropped_messages() -> None:
    history = JobHistory(ServerLimits(messages=100), [StateEvent(JobState.STOPPED, 1.0)], log())
    for number in range(1_000):
        kind = Importance.ERROR if number in (3, 700) else Importance.BASIC
        history.add_messages([history.create_message(kind, text(), 1.0 + number)])
    assert history.first_message_id > 701
    (group,) = history.collect_errors().groups
    assert (group.count, group.first, group.last) == (2, 4.0, 701.0)


def test_server_returns_errors_of_running_and_finished_jobs(
    client: JobClient, executor: FakeExecutor, pipeline: bytes
) -> None:
    job_id = client.submit_job(pipeline)
    reporter = executor.job(job_id).reporter
    assert client.get_errors(job_id) == JobErrors()
    reporter.report_state(JobState.RUNNING)
    reporter.report_message(Importance.ERROR, text(4).replace("Count", "Create/Impulse"))
    (running,) = client.get_errors(job_id).groups
    assert (running.count, running.failure.step) == (1, "impulse")
    reporter.report_state(JobState.FAILED, text(4).replace("Count", "Create/Impulse"))
    (ended,) = client.get_errors(job_id).groups
    assert (ended.count, ended.failure.type) == (2, "ValueError")
    assert (
        ended.failure.innermost_user_frame is not None
        and ended.failure.innermost_user_frame.line == 4
    )


def test_error_log_client_ignores_unknown_fields_of_newer_server() -> None:
    sent = json.loads(encode_json(log().read_messages([error(1, text())])))
    sent["new"] = sent["groups"][0]["failure"]["new"] = 1
    assert make_record(JobErrors, sent).groups[0].failure.type == "ValueError"
