"""Tests of the comparison of plans: each edit of the table has exactly the listed findings."""

from __future__ import annotations

import pytest
import samples
from beam_runner_model.update_rendering import render_finding, render_update_report
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingVerdict,
    PlanCorrespondence,
    UpdateInstructions,
)
from edit_table import EDITS
from update_samples import CountWithoutAlarm, CountWithoutSeen, Edit, Stream, contents_of, drop

from beam_runner_planner.updates.compare import compare_plans

BASE = Stream()


def describe(finding: Finding) -> str:
    """Returns a finding as the table writes it."""
    part = f"/{finding.part}" if finding.part else ""
    values = f": {finding.before} -> {finding.after}" if finding.before or finding.after else ""
    flags = f"{' agreed' * finding.agreed}{' passes' * finding.passes}"
    who = f"{finding.subject} {finding.step}{part}"
    return f"{finding.verdict} {finding.reason} {who}{values}{flags}"


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_plan_comparison_after_an_edit_has_exactly_the_expected_findings(edit: Edit) -> None:
    old, new = samples.plan_of(edit.old), samples.plan_of(edit.new)
    report = compare_plans(old, new, edit.wishes, contents_of(old, **edit.data)).report
    changed = [finding for finding in report.findings if finding.reason is not FindingReason.SAME]
    assert [describe(finding) for finding in changed] == edit.expected
    assert len({*map(render_finding, report.findings)}) == len(report.findings)


def correspondence(new: Stream, wishes: UpdateInstructions | None = None) -> PlanCorrespondence:
    old = samples.plan_of(BASE)
    compared = compare_plans(
        old, samples.plan_of(new), wishes or UpdateInstructions(), contents_of(old)
    )
    return compared.correspondence


def test_plan_comparison_of_an_unchanged_stream_keeps_every_stage() -> None:
    plan = samples.plan_of(BASE)
    compared = compare_plans(plan, plan, UpdateInstructions(), contents_of(plan))
    identities = {stage.identity: stage.identity for stage in plan.stages.values()}
    assert compared.correspondence.stages == identities
    assert {finding.reason for finding in compared.report.findings} == {FindingReason.SAME}
    assert len(compared.report.kept_findings) == len(plan.stages)
    assert not compared.report.is_refused


def test_plan_comparison_after_a_changed_environment_has_no_differences() -> None:
    old, new = samples.plan_of(BASE), samples.plan_of(BASE, *samples.EXTERNAL)
    assert not old.needs_sdks and new.needs_sdks
    report = compare_plans(old, new, UpdateInstructions(), contents_of(old)).report
    assert {finding.reason for finding in report.findings} == {FindingReason.SAME}


def test_plan_comparison_maps_a_renamed_stage_to_its_new_identity() -> None:
    renamed = correspondence(Stream(count_name="Tally"), UpdateInstructions({"Count": "Tally"}))
    assert renamed.stages["keyed:Count"] == "keyed:Tally"
    assert renamed.collections["stored:Count|None"] == "stored:Tally|None"
    assert renamed.dropped_stages == frozenset()


def test_plan_comparison_drops_only_stages_that_the_user_permits_to_drop() -> None:
    assert correspondence(Stream(sums=False)).dropped_stages == frozenset()
    permitted = correspondence(Stream(sums=False), drop("Sum"))
    assert permitted.dropped_stages == {"lifted:Sum/Group"}


def test_plan_comparison_lists_dropped_states_and_timers_by_new_stage() -> None:
    without_seen = correspondence(Stream(count=CountWithoutSeen), drop("Count/seen"))
    assert without_seen.dropped_states == {"keyed:Count": frozenset({"seen"})}
    without_alarm = correspondence(Stream(count=CountWithoutAlarm))
    assert without_alarm.dropped_timers == {"keyed:Count": frozenset({"ts-alarm"})}


def test_plan_comparison_maps_a_side_input_to_its_new_position() -> None:
    shifted = correspondence(Stream(second_side="Rules"))
    assert shifted.side_inputs == {
        ("stored:Read", "Read:python_side_input0"): ("stored:Read", "Read:python_side_input1")
    }


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (samples.group, FindingReason.JOB_BOUNDED),
        (samples.scripted_stateful, FindingReason.JOB_SCRIPTED),
    ],
    ids=["bounded", "scripted"],
)
def test_plan_comparison_refuses_a_job_that_cannot_be_updated(
    build: samples.Build, reason: FindingReason
) -> None:
    plan = samples.plan_of(build)
    (finding,) = compare_plans(plan, plan, UpdateInstructions(), {}).report.findings
    assert (finding.verdict, finding.reason) == (FindingVerdict.REFUSED, reason)


def test_plan_comparison_report_lists_refusals_first() -> None:
    old = samples.plan_of(BASE)
    new = samples.plan_of(Stream(count_name="Tally"))
    lines = [
        *render_update_report(
            compare_plans(old, new, UpdateInstructions(), contents_of(old)).report
        )
    ]
    verdicts = [line.partition(":")[0] for line in lines]
    assert verdicts[:2] == ["refused", "new"] and {*verdicts[2:]} == {"kept"}
