"""Tests of the texts of an update's findings."""

from __future__ import annotations

import pytest

from beam_runner_model.update_rendering import render_finding, render_update_report
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    UpdateReport,
)


@pytest.mark.parametrize("subject", FindingSubject)
@pytest.mark.parametrize("reason", FindingReason)
def test_text_of_every_update_finding_is_a_sentence_without_a_period(
    reason: FindingReason, subject: FindingSubject
) -> None:
    for verdict in FindingVerdict:
        text = render_finding(
            Finding(verdict, reason, subject, "the step", "the part", "one", "other", 5, 7)
        )
        assert text and not text.endswith(".") and "  " not in text


def test_update_refusal_because_of_lost_data_names_the_options_that_allow_it() -> None:
    lost = Finding(
        FindingVerdict.REFUSED,
        FindingReason.REMOVED,
        step="Sum it",
        after="Total",
        state_bytes=12_345,
    )
    text = render_finding(lost)
    assert "12,345 bytes" in text
    assert """--transform_name_mapping='{"Sum it": "Total"}'""" in text
    assert "--beam_spark_update_drop='Sum it'" in text


def test_update_finding_about_a_state_names_its_step() -> None:
    text = render_finding(
        Finding(
            FindingVerdict.REFUSED,
            FindingReason.REMOVED,
            FindingSubject.STATE,
            step="Count",
            part="total",
        )
    )
    assert "--beam_spark_update_drop=Count/total" in text


def test_update_finding_with_an_unknown_reason_has_a_text() -> None:
    finding = Finding("refused", "a reason of the future", "a subject of the future", step="Count")
    assert finding.reason is FindingReason.OTHER and finding.subject is FindingSubject.OTHER
    assert "Count" in render_finding(finding)


def test_update_report_lists_refusals_first() -> None:
    findings = (
        Finding(FindingVerdict.KEPT, FindingReason.SAME, step="a"),
        Finding(FindingVerdict.REFUSED, FindingReason.HAS_ENDED, step="b", passes=True),
    )
    report = UpdateReport(findings)
    assert [line.split(":")[0] for line in render_update_report(report)] == ["refused", "kept"]
    assert report.is_refused and not report.is_refused_permanently
