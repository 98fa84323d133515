"""Tests of the messages of jobs about updates."""

from __future__ import annotations

from beam_runner_driver.updates.job_update import UpdateOutcome, UpdateResult
from beam_runner_model.jobs import Importance
from beam_runner_model.updates import Finding, FindingReason, FindingVerdict, UpdateReport

from beam_runner_server.update_messages import describe_update_refusal, make_update_message_lines

KEPT = Finding(FindingVerdict.KEPT, FindingReason.SAME, step="Kept")
NEW = Finding(FindingVerdict.NEW, FindingReason.ADDED, step="New")
REFUSED = Finding(FindingVerdict.REFUSED, FindingReason.REMOVED, step="Gone", state_bytes=5)


def test_update_message_has_one_line_per_finding_with_refusals_first() -> None:
    lines = make_update_message_lines(UpdateReport((KEPT, NEW, REFUSED)))
    assert [line.importance for line in lines] == [
        Importance.WARNING,
        Importance.BASIC,
        Importance.DETAILED,
    ]
    assert "Gone" in lines[0].text


def test_update_refusal_message_names_the_job_and_its_first_reasons() -> None:
    report = UpdateReport((KEPT, *[REFUSED] * 12))
    text = describe_update_refusal("orders-1", UpdateResult(UpdateOutcome.REFUSED, report))
    assert text.startswith("Can't replace job orders-1, which continues unchanged: ")
    assert text.count("'Gone'") == 10
    assert text.endswith("and 2 more refusals")


def test_update_refusal_message_without_findings_has_the_reason_of_the_job() -> None:
    answer = UpdateResult(UpdateOutcome.INTERRUPTED, reason="a client cancelled the job")
    text = describe_update_refusal("orders-1", answer)
    assert text == "Can't replace job orders-1: a client cancelled the job"
