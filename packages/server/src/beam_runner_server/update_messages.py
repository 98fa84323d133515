"""Messages about updates: one sentence for each difference between the old and the new job."""

from __future__ import annotations

from beam_runner_driver.updates.job_update import UpdateOutcome, UpdateResult
from beam_runner_model.jobs import Importance, MessageLine
from beam_runner_model.update_rendering import render_finding
from beam_runner_model.updates import Finding, FindingReason, FindingVerdict, UpdateReport

_MOST = 10


def make_update_message_lines(report: UpdateReport) -> list[MessageLine]:
    """Returns a message for each finding of an update report, refusals first."""
    return [
        MessageLine(_get_importance(one), render_finding(one)) for one in report.ordered_findings
    ]


def describe_update_refusal(job_id: str, answer: UpdateResult) -> str:
    """Returns the reason why a job wasn't replaced: the reason in the answer, or the refusals in its report."""
    unchanged = ", which continues unchanged" if answer.outcome is UpdateOutcome.REFUSED else ""
    reasons = [answer.reason] if answer.reason else []
    if answer.report.is_refused:
        reasons.append(list_update_refusals(answer.report))
    return f"Can't replace job {job_id}{unchanged}: {'; '.join(reasons)}"


def list_update_refusals(report: UpdateReport) -> str:
    """Returns the first refusals of a report and the number of further refusals, in one line."""
    reasons = [render_finding(finding) for finding in report.refused_findings[:_MOST]]
    more = len(report.refused_findings) - _MOST
    if more > 0:
        reasons.append(f"and {more} more refusals")
    return "; ".join(reasons)


def _get_importance(finding: Finding) -> Importance:
    if finding.verdict in (FindingVerdict.REFUSED, FindingVerdict.DROPPED):
        return Importance.WARNING
    return Importance.DETAILED if finding.reason is FindingReason.SAME else Importance.BASIC
