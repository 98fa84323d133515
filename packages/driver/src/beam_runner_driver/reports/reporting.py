"""Messages about a job for its users: log records of user code, and the cause of a failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_model.failures import JobFailure, JobFailureKind
from beam_runner_model.jobs import PRINT_PREFIX, Importance, JobState, MessageLine
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import FailedStep
from beam_runner_worker.log_records import LogRecord, Severity

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ports import RunReporter
from beam_runner_driver.reports.failure_reports import describe_failure

_STATES = {
    Outcome.DONE: JobState.DONE,
    Outcome.DRAINED: JobState.DRAINED,
    Outcome.CANCELLED: JobState.CANCELLED,
}
_IMPORTANCE = {
    Severity.TRACE: Importance.DEBUG,
    Severity.DEBUG: Importance.DEBUG,
    Severity.INFO: Importance.DETAILED,
    Severity.NOTICE: Importance.BASIC,
    Severity.WARN: Importance.WARNING,
    Severity.ERROR: Importance.ERROR,
    Severity.CRITICAL: Importance.ERROR,
}
# Name of the dictionaries in which Beam's Python SDK registers transforms and coders, as in its
# tracebacks.
_REGISTRY = "_known_urns["
_KEY_ERROR = re.compile(r"KeyError: '([^'\n]*)'")


def report_logs(reporter: RunReporter, records: Iterable[LogRecord], worker: str) -> None:
    """Adds log records of user code and SDKs to the job's log. `worker` is the process that sent them."""
    reporter.report_messages([_make_message_line(record, worker) for record in records])


def _make_message_line(record: LogRecord, worker: str) -> MessageLine:
    text = f"{record.message}\n{record.trace}" if record.trace else record.message
    return MessageLine(_map_importance(record), text, record.transform_id, worker)


def _map_importance(record: LogRecord) -> Importance:
    """Returns the importance of a record. Beam's Python client shows BASIC as INFO, and DETAILED as
    DEBUG.

    INFO records of a transform and printed lines have the importance BASIC. Other INFO records,
    which are about the SDK itself, have the importance DETAILED.
    """
    is_users = record.transform_id or record.message.startswith(PRINT_PREFIX)
    if record.severity is Severity.INFO and is_users:
        return Importance.BASIC
    return _IMPORTANCE.get(record.severity, Importance.DETAILED)


def report_end(reporter: RunReporter, ledger: JobLedger, end: FinishJob | FailJob) -> bool:
    """Reports the terminal state of a job. Returns whether the report changed the state."""
    if isinstance(end, FinishJob):
        return reporter.report_state(_STATES[end.outcome])
    last, plan = ledger.last_failure, ledger.plan
    ending = describe_job_failure(end, last, plan, ledger.list_wait_reasons)
    return reporter.report_state(JobState.FAILED, format_job_failure(end, last, plan), ending)


def describe_job_failure(
    end: FailJob, last: BundleFailed | None, plan: JobPlan, waits: Callable[[], tuple[Wait, ...]]
) -> JobFailure:
    """Returns a record with the cause of a job's failure.

    Args:
        end: end of the job from the engine.
        last: last failed attempt at a bundle.
        plan: plan of the job, with the steps of each stage.
        waits: function that returns the reasons for which the job waited at its end.
    """
    reason = format_job_failure(end, last, plan).partition("\n")[0]
    if end.kind is JobFailureKind.STUCK:
        return JobFailure(end.kind, reason, waits=waits())
    if last is None or not _is_bundle_failure(end):
        return JobFailure(end.kind, reason)
    attempts = end.attempts or len(end.causes)
    failure = describe_failure(last, attempts=attempts, stage=end.stage or "")
    return JobFailure(JobFailureKind.BUNDLE, reason, failure)


def _is_bundle_failure(end: FailJob) -> bool:
    """Returns whether a failed bundle ended the job. Journals of earlier versions don't record the kind of the end."""
    return end.stage is not None and end.kind in (JobFailureKind.BUNDLE, JobFailureKind.OTHER)


def format_job_failure(end: FailJob, last: BundleFailed | None, plan: JobPlan) -> str:
    """Returns the text about a job's failure.

    Args:
        end: end of the job from the engine.
        last: last failed attempt at a bundle.
        plan: plan of the job, with the steps of each stage.
    """
    if end.stage is None or last is None or not _is_bundle_failure(end):
        return end.reason
    attempts = end.attempts or len(end.causes)
    tried = "" if attempts == 1 else f" (attempt {attempts} of {attempts})"
    name = plan.stages[end.stage].spec.title
    if last.kind is FailureKind.USER or isinstance(last.detail, FailedStep):
        summary, _, trace = last.cause.partition("\n")
        return f"{_explain_unknown_urn(last.cause)}{summary}{tried}\n{trace}".rstrip()
    if last.kind is FailureKind.PERMANENT:
        return f"'{name}' failed with a permanent error: {last.cause}"
    if last.kind is FailureKind.UNAVAILABLE:
        return (
            f"'{name}' waited for {last.neighbour} longer than --outage-limit of the"
            f" server permits: {last.cause}"
        )
    return (
        f"'{name}' failed {attempts} times outside of user code; the last error:"
        f" {_explain_unknown_urn(last.cause)}{last.cause}"
    )


def _explain_unknown_urn(cause: str) -> str:
    """Returns an explanation for a KeyError whose text is only a URN: the Python SDK doesn't know
    the URN. Returns "" for other causes.
    """
    unknown = _KEY_ERROR.search(cause.partition(_REGISTRY)[2])
    if unknown is None:
        return ""
    return (
        f"the SDK doesn't know {unknown[1]!r}, a URN in the pipeline; check that the"
        " pipeline and the SDK have the same version of Beam: "
    )
