"""Comparison of the plan of a running job with the plan of a new pipeline.

For each step with data, the result says whether the new pipeline continues with the data (ADR
0050).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    JobContents,
    PlanCorrespondence,
    UpdateInstructions,
    UpdateReport,
)

from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.consents import UpdatePermissions, format_part_name
from beam_runner_planner.updates.matching import MatchedPlans, match_plans
from beam_runner_planner.updates.pairs import StagePair
from beam_runner_planner.updates.side_inputs import SideInputFindings, compare_side_inputs
from beam_runner_planner.updates.stage_findings import compare_stage_code, compare_stage_input
from beam_runner_planner.updates.states import StateFindings, compare_states
from beam_runner_planner.updates.unmatched import (
    describe_new_stage,
    find_input_after_end,
    find_removed_stages,
    get_finding_subject,
)


@attrs.frozen
class PlanComparison:
    """Result of the comparison of two plans.

    Attributes:
        report: the findings.
        correspondence: the parts of the new plan that continue parts of the old plan. The
            correspondence is valid only if the report doesn't refuse the update.
    """

    report: UpdateReport
    correspondence: PlanCorrespondence = attrs.field(factory=PlanCorrespondence)


def compare_plans(
    old: JobPlan, new: JobPlan, wishes: UpdateInstructions, contents: JobContents
) -> PlanComparison:
    """Compares the plan of a running job with the plan of a new pipeline.

    Args:
        old: the plan of the running job.
        new: the plan of the new pipeline.
        wishes: the options of the update.
        contents: the data of the running job, by the stage ids of its plan.
    """
    problems = tuple(_list_plan_problems(old, new))
    if problems:
        return PlanComparison(UpdateReport(problems))
    plans = match_plans(old, new, wishes.mapping, contents)
    consents = UpdatePermissions.from_instructions(wishes)
    sides = compare_side_inputs(plans, consents)
    stages: list[Finding] = []
    states: dict[str, StateFindings] = {}
    for identity, view in plans.new.items():
        if identity in plans.continued_stages:
            before = plans.continued_stages[identity]
            pair = StagePair(plans.old[before], view, plans.get_stage_data(before), consents)
            states[identity] = compare_states(pair)
            stages += _compare_stage_pair(plans, pair, states[identity])
        else:
            stages.append(describe_new_stage(plans, view, consents))
    findings = (
        *plans.names.list_mapping_problems(),
        *consents.list_unknown_names(*_list_selectable_names(plans)),
        *stages,
        *sides.findings,
        *find_removed_stages(plans, consents),
    )
    return PlanComparison(
        UpdateReport(findings), _build_correspondence(plans, consents, sides, states)
    )


def _list_plan_problems(old: JobPlan, new: JobPlan) -> Iterator[Finding]:
    """Yields the findings about plans that no update can combine."""
    reasons = {
        FindingReason.JOB_BOUNDED: not (old.streaming and new.streaming),
        FindingReason.JOB_SCRIPTED: bool(old.test_streams or new.test_streams),
        FindingReason.JOB_WITHOUT_IDENTITIES: not old.has_identities,
    }
    for reason, applies in reasons.items():
        if applies:
            yield Finding(FindingVerdict.REFUSED, reason, FindingSubject.JOB)


def _compare_stage_pair(
    plans: MatchedPlans, pair: StagePair, states: StateFindings
) -> tuple[Finding, ...]:
    """Returns the findings about a stage that continues an old stage, at least one."""
    renamed = []
    if pair.old.step != pair.new.step:
        renamed.append(
            pair.create_kept_finding(
                FindingReason.RENAMED, get_finding_subject(pair.new), before=pair.old.step
            )
        )
    found = (
        *renamed,
        *find_input_after_end(plans, pair),
        *compare_stage_input(pair),
        *compare_stage_code(pair, plans.names),
        *states.findings,
    )
    return found or (pair.create_kept_finding(FindingReason.SAME, get_finding_subject(pair.new)),)


def _list_selectable_names(plans: MatchedPlans) -> tuple[set[str], set[str]]:
    """Returns the names that options of an update may use: the steps of both plans, and their states,
    timers and side inputs as ``STEP/PART``.

    The parts of a renamed step also have its new name, which findings about the step have.
    """
    steps: set[str] = set()
    parts: set[str] = set()
    views = [(view.step, view) for view in (*plans.old.values(), *plans.new.values())]
    views += [(plans.new[new].step, plans.old[old]) for new, old in plans.continued_stages.items()]
    for step, view in views:
        steps.update(view.steps)
        stateful = view.plan.stateful
        if stateful is not None:
            timers = {*stateful.timers, *map(format_part_name, stateful.timers)}
            parts |= {f"{step}/{part}" for part in (*stateful.states, *timers)}
        parts |= {f"{use.transform_id}/{use.tag}" for use in view.plan.side_inputs}
    return steps, parts


def _build_correspondence(
    plans: MatchedPlans,
    consents: UpdatePermissions,
    sides: SideInputFindings,
    states: dict[str, StateFindings],
) -> PlanCorrespondence:
    renamed = {before.collection: after.collection for before, after in sides.pairs}
    return PlanCorrespondence(
        stages=plans.stages,
        collections={**plans.collections, **renamed},
        side_inputs={before.key: after.key for before, after in sides.pairs},
        dropped_stages=frozenset(
            identity
            for identity, view in plans.old.items()
            if identity not in plans.stages and consents.may_drop_data((view.step,))
        ),
        dropped_states={
            stage: found.dropped_states for stage, found in states.items() if found.dropped_states
        },
        dropped_timers={
            stage: found.dropped_timers for stage, found in states.items() if found.dropped_timers
        },
    )
