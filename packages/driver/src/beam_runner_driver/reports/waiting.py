"""Reasons for which the parts of a job wait, as records with the users' step names."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

import attrs
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.sections.plan import list_stage_ids

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.lanes.processes import SilentProcess
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.retrying_journal import Outage

_MOST_OF_A_KIND = 3
"""Maximum number of reported wait reasons of one kind per stage. For example, each key shard of a
stage can wait for a timer.
"""
_MOST = 200
_MOST_STEPS = 6
"""Maximum number of step names in one wait reason. A stage can contain thousands of steps and have
many wait reasons.
"""


def find_job_waits(
    coordinator: JobCoordinator,
    plan: JobPlan,
    silent: Iterable[SilentProcess],
    waits: Iterable[Wait],
) -> tuple[Wait, ...]:
    """Returns the reasons for which a job waits.

    Reasons that concern the cluster and the job's processes come first, then the reasons of the
    stages.

    Args:
        silent: unresponsive worker processes.
        waits: reasons for which the stages wait, from the scheduler.
    """
    found: list[Wait] = []
    counts: Counter[tuple[str, WaitKind]] = Counter()
    for wait in (*_find_waits_of_runner(coordinator, plan, silent), *waits):
        counts[wait.stage, wait.kind] += 1
        if counts[wait.stage, wait.kind] <= _MOST_OF_A_KIND or not wait.stage:
            found.append(_add_step_names(wait, plan))
    return tuple(found[:_MOST])


def is_waiting_for_clock(ledger: JobLedger, waits: Iterable[Wait]) -> bool:
    """Returns whether the job waits only for idle sources and timers, so that a missing progress is
    normal.

    Args:
        waits: reasons for which the stages wait.
    """
    return (
        ledger.next_wake is not None
        and not ledger.open_bundles
        and not any(wait.kind in (WaitKind.SIDE_INPUT, WaitKind.RETRY) for wait in waits)
    )


def make_external_system_wait(outage: Outage, now: int) -> Wait:
    """Returns the record of a wait for an unavailable external system, at processing time `now` (ms)."""
    moment = time.monotonic()
    return Wait(
        WaitKind.NEIGHBOUR,
        neighbour=outage.away.neighbour,
        reason=outage.away.reason,
        seconds=round(moment - outage.since, 1),
        until=now + max(0, round(1000 * (outage.next_try - moment))),
    )


def _find_waits_of_runner(
    coordinator: JobCoordinator, plan: JobPlan, silent: Iterable[SilentProcess]
) -> Iterator[Wait]:
    for one in silent:
        process = one.hello
        yield Wait(
            WaitKind.PROCESS,
            one.stage if one.stage in plan.stages else "",
            host=process.host,
            pid=process.pid,
            seconds=round(one.seconds, 1),
        )
    for outage in (coordinator.lane_failures.outage, *coordinator.outages.list_outages()):
        if outage is not None:
            yield make_external_system_wait(outage, coordinator.clock.now())
    tasks = coordinator.sections.tasks
    for section in coordinator.sections.list_running():
        stage, steps = section.bundle.stage, _list_step_names(plan, list_stage_ids(section.bundle))
        yield Wait(WaitKind.TASKS, stage, steps, count=tasks.known, done=tasks.done)
    if waiting := coordinator.lanes.bundles_awaiting_lane_start:
        yield Wait(WaitKind.SLOT, count=waiting)
    if starting := [lane for lane in coordinator.lanes.list_busy_lanes() if lane.prepares]:
        seconds = time.monotonic() - min(lane.began for lane in starting)
        yield Wait(WaitKind.HARNESS, count=len(starting), seconds=round(seconds, 1))


def _add_step_names(wait: Wait, plan: JobPlan) -> Wait:
    """Returns the record of a wait reason, with the full names of steps in place of stage ids."""
    if not wait.stage or wait.steps:
        return wait
    stage = plan.stages[wait.stage]
    if wait.kind is WaitKind.END_OF_SECTION_INPUT:
        givers = tuple(plan.stages[giver].spec.title for giver in wait.givers)
        wait = attrs.evolve(wait, givers=givers)
    use = next((one for one in stage.side_inputs if one.name == wait.side_input), None)
    if use is None:
        return attrs.evolve(wait, steps=_list_step_names(plan, (wait.stage,)))
    givers = tuple(
        other.spec.name.rpartition(" + ")[2]
        for other in plan.stages.values()
        if use.buffer_id in other.outputs.values()
    )
    return attrs.evolve(wait, steps=(use.transform_id,), givers=givers)


def _list_step_names(plan: JobPlan, stages: Iterable[str]) -> tuple[str, ...]:
    """Returns the full names of the steps in stages. Shortens a long list to the first and the last name."""
    names = [name for stage in stages for name in plan.stages[stage].spec.name.split(" + ")]
    return tuple(names if len(names) <= _MOST_STEPS else (names[0], "...", names[-1]))
