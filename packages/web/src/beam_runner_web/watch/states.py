"""States of a job's steps, computed from errors and from the stages that run the steps."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping

from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import is_max_timestamp
from beam_runner_model.jobs import JobState


class StepState(enum.Enum):
    """State of a step. If the runner doesn't report stages, it's derived from the job's state."""

    FAILED = "failed"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    IDLE = "idle"


_OF_COMPOSITES = (StepState.FAILED, StepState.RUNNING, StepState.WAITING)
ENDED_WELL = (JobState.DONE, JobState.DRAINED)


def compute_step_states(
    tree: StepTree,
    figures: JobFigures,
    state: JobState,
    failed: frozenset[str],
    moving: frozenset[str] = frozenset(),
) -> Mapping[str, StepState]:
    """Returns the state of each step.

    `failed` are the steps whose error ended the job. `moving` are the steps that emitted elements
    since the last sample.
    """
    found: dict[str, StepState] = {}
    if not state.is_terminal:
        for stage in figures.stages:
            for step in stage.steps:
                found[step] = get_stage_state(stage)
                if step in moving and found[step] is StepState.IDLE:
                    found[step] = StepState.RUNNING
    told = frozenset(found)
    found.update(_infer_states_between_stages(tree, found))
    usual = StepState.DONE if state in ENDED_WELL else StepState.IDLE
    for key in reversed(list(tree.steps)):
        if key in failed:
            found[key] = StepState.FAILED
        children = [found[child] for child in tree.steps[key].children if child in found]
        if key in found or not children:
            found.setdefault(key, usual)
            continue
        worst = next((one for one in _OF_COMPOSITES if one in children), None)
        # Ignore steps that aren't part of a stage, such as an Impulse.
        leaves = [found[leaf] for leaf in tree.list_leaves(key) if leaf in told]
        if worst is None and leaves:
            is_done = all(leaf is StepState.DONE for leaf in leaves)
            worst = StepState.DONE if is_done else StepState.IDLE
        found[key] = worst or usual
    return found


def _infer_states_between_stages(
    tree: StepTree, told: Mapping[str, StepState]
) -> Mapping[str, StepState]:
    """Returns the states of steps that aren't part of a stage, such as a GroupByKey: the states of
    the steps that read their output.
    """
    if not told:
        return {}
    readers: dict[str, list[str]] = defaultdict(list)
    for key, step in tree.steps.items():
        if not step.children:
            for pcollection in step.description.inputs.values():
                readers[pcollection].append(key)
    found: dict[str, StepState] = {}
    for key in reversed(list(tree.steps)):
        step = tree.steps[key]
        if step.children or key in told:
            continue
        outputs = step.description.outputs.values()
        after = {told.get(one, found.get(one)) for out in outputs for one in readers[out]}
        if len(after) == 1 and (state := after.pop()) is not None:
            found[key] = state
    return found


def get_stage_state(stage: StageFigures) -> StepState:
    """Returns the state of an unfinished stage."""
    if stage.open_bundles:
        return StepState.RUNNING
    if stage.waiting_bytes or stage.waits or stage.paused:
        return StepState.WAITING
    return StepState.DONE if is_max_timestamp(stage.output_watermark) else StepState.IDLE
