"""Where stages must begin: fusion puts no transform into a stage that could not see what it must.

The scheduler sees the windows of elements only as they come into a stage, and it looks up none for
groups and timers. So a transform with side inputs does not fuse behind a grouping or a stateful
transform, nor, where a side input never ends and so must be read window by window, behind a change
of windows.

And SDKs set up a stage's transforms within each other and hand elements on by calls within calls, so
that the stack of Python ends somewhere: a stage is no more than ``MOST_DEEP`` transforms deep.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from beam_runner_model.window_fns import GlobalWindows
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.context import Context
from beam_runner_planner.ordering import after_those_needed
from beam_runner_planner.side_inputs import is_unbounded
from beam_runner_planner.stateful import needs_stable_input, stateful_payload
from beam_runner_planner.steps import Step
from beam_runner_planner.windowing import window_fn

MOST_DEEP = 100
"""How many transforms of a stage can follow each other. FnApiRunner, which does not cut, does some 200."""

_GROUPS = b"group:"


class _Behind(enum.Flag):
    """What elements went through since they came into their stage."""

    NOTHING = 0
    GROUPING = enum.auto()
    WINDOWING = enum.auto()


def begin_stages(steps: Sequence[Step], context: Context) -> Sequence[Step]:
    """A phase before fusion: marks the transforms that must be the first of their stage."""
    made_by = {p: step for step in steps for p in step.outputs}

    def before(step: Step) -> Step | None:
        return None if step.main is None else made_by.get(step.main)

    behind: dict[Step, tuple[_Behind, int]] = {}
    for step in after_those_needed(steps, lambda step: filter(None, (before(step),))):
        maker = before(step)
        passed, depth = (_Behind.NOTHING, 0) if maker is None else behind[maker]
        too_deep = depth >= MOST_DEEP and not step.writes_buffer
        # What Spark itself does is a stage of its own.
        alone = spark_urns.ALL & {step.urn, "" if maker is None else maker.urn}
        if too_deep or alone or _must_begin(step, passed, context.components):
            step.begins = True
            passed, depth = _Behind.NOTHING, 0
        behind[step] = passed | _done_by(step.transform), depth + 1
    return steps


def _done_by(transform: _protos.PTransform) -> _Behind:
    urn, payload = transform.spec.urn, transform.spec.payload
    if urn == transform_urns.DATA_SOURCE and payload.startswith(_GROUPS):
        return _Behind.GROUPING
    if stateful_payload(transform) is not None:
        return _Behind.GROUPING
    return _Behind.WINDOWING if urn == transform_urns.ASSIGN_WINDOWS else _Behind.NOTHING


def _must_begin(step: Step, passed: _Behind, components: _protos.Components) -> bool:
    transform = step.transform
    if stateful_payload(transform) is not None or needs_stable_input(transform):
        return True
    if passed is _Behind.NOTHING:
        return False
    sides = [components.pcollections[pcollection_id] for pcollection_id in step.sides]
    if _Behind.GROUPING in passed:
        return bool(sides)
    return any(is_unbounded(side) and not _is_global(side, components) for side in sides)


def _is_global(pcollection: _protos.PCollection, components: _protos.Components) -> bool:
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    return isinstance(window_fn(strategy.window_fn), GlobalWindows)
