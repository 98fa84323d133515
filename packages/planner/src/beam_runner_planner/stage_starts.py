"""Rules that decide which transforms must begin a stage, so that the runner can give each transform
the data that it needs.

The scheduler knows the windows of elements only at the input of a stage, and looks up no windows
for groups and timers. So a transform with side inputs doesn't fuse after a grouping or a stateful
transform. If a side input is unbounded, and so is read window by window, the transform also doesn't
fuse after a change of windows.

SDKs set up the transforms of a stage recursively, and pass elements on by nested calls. Python
limits the depth of the stack, so a stage is at most ``MOST_DEEP`` transforms deep.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from beam_runner_model.window_fns import GlobalWindows
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.context import FusionContext
from beam_runner_planner.digest_environment import DIGEST_ENVIRONMENT
from beam_runner_planner.isolation import ElementIsolation
from beam_runner_planner.ordering import sort_by_dependencies
from beam_runner_planner.side_inputs import is_unbounded
from beam_runner_planner.stateful import get_stateful_payload, needs_stable_input
from beam_runner_planner.steps import Step
from beam_runner_planner.windowing import convert_window_fn

MOST_DEEP = 100
"""The maximum number of transforms of a stage in a chain. FnApiRunner, which has no limit, fails at about 200."""

_GROUPS = b"group:"


class _TraversedTransforms(enum.Flag):
    """Kinds of transforms in a stage that elements pass before they reach a step."""

    NOTHING = 0
    GROUPING = enum.auto()
    WINDOWING = enum.auto()


def mark_stage_starts(
    steps: Sequence[Step], context: FusionContext, isolation: ElementIsolation | None = None
) -> Sequence[Step]:
    """Marks the transforms that must be the first transform of a stage. This phase runs before
    fusion.

    Args:
        isolation: the steps whose elements the runner must be able to isolate; None for no steps.
    """
    made_by = {p: step for step in steps for p in step.outputs}

    def find_producer(step: Step) -> Step | None:
        return None if step.main is None else made_by.get(step.main)

    behind: dict[Step, tuple[_TraversedTransforms, int]] = {}
    for step in sort_by_dependencies(steps, lambda step: filter(None, (find_producer(step),))):
        maker = find_producer(step)
        passed, depth = (_TraversedTransforms.NOTHING, 0) if maker is None else behind[maker]
        too_deep = depth >= MOST_DEEP and not step.writes_buffer
        # Spark itself runs a table read or write, so the read or write is a separate stage.
        alone = spark_urns.ALL & {step.urn, "" if maker is None else maker.urn}
        isolated = isolation is not None and isolation.must_start_stage(step, maker, find_producer)
        must_start = _must_start_stage(step, passed, context.components)
        if too_deep or alone or isolated or must_start:
            step.begins = True
            passed, depth = _TraversedTransforms.NOTHING, 0
        behind[step] = passed | _find_passed_transforms(step.transform), depth + 1
    return steps


def _find_passed_transforms(transform: _protos.PTransform) -> _TraversedTransforms:
    urn, payload = transform.spec.urn, transform.spec.payload
    if urn == transform_urns.DATA_SOURCE and payload.startswith(_GROUPS):
        return _TraversedTransforms.GROUPING
    if get_stateful_payload(transform) is not None:
        return _TraversedTransforms.GROUPING
    return (
        _TraversedTransforms.WINDOWING
        if urn == transform_urns.ASSIGN_WINDOWS
        else _TraversedTransforms.NOTHING
    )


def _must_start_stage(
    step: Step, passed: _TraversedTransforms, components: _protos.Components
) -> bool:
    transform = step.transform
    if get_stateful_payload(transform) is not None or needs_stable_input(transform):
        return True
    if transform.environment_id == DIGEST_ENVIRONMENT:
        # The upstream stage keeps the input coders of the original pipeline, so that it can decode
        # data that was written before an update.
        return True
    if passed is _TraversedTransforms.NOTHING:
        return False
    sides = [components.pcollections[pcollection_id] for pcollection_id in step.sides]
    if _TraversedTransforms.GROUPING in passed:
        return bool(sides)
    return any(is_unbounded(side) and not _has_global_window(side, components) for side in sides)


def _has_global_window(pcollection: _protos.PCollection, components: _protos.Components) -> bool:
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    return isinstance(convert_window_fn(strategy.window_fn), GlobalWindows)
