"""Where stages must begin: fusion puts no transform into a stage that could not see what it must.

The scheduler sees the windows of elements only as they come into a stage, and it looks up none for
groups and timers. So a transform with side inputs does not fuse behind a grouping or a stateful
transform, nor, where a side input never ends and so must be read window by window, behind a change
of windows.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from beam_runner_engine.values.window_fns import GlobalWindows
from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation.side_inputs import is_unbounded, main_input, side_inputs_of
from beam_spark_executor.translation.stateful import needs_stable_input, stateful_payload
from beam_spark_executor.translation.windowing import window_fn

_GROUPS = b"group:"


class _Behind(enum.Flag):
    """What elements went through since they came into their stage."""

    NOTHING = 0
    GROUPING = enum.auto()
    WINDOWING = enum.auto()


def begin_stages(stages: Sequence[Any], context: Any) -> Sequence[Any]:
    """A phase before fusion: marks the transforms that must be the first of their stage.

    Args:
        stages: Beam's, of one transform each.
        context: Beam's.
    """
    made_by = {p: stage for stage in stages for t in stage.transforms for p in t.outputs.values()}
    behind: dict[int, _Behind] = {}
    for stage in stages:
        chain = []
        here = stage
        while here is not None and id(here) not in behind:
            chain.append(here)
            here = made_by.get(main_input(_only(here)))
        for link in reversed(chain):
            before = made_by.get(main_input(_only(link)))
            passed = _Behind.NOTHING if before is None else behind[id(before)]
            if _must_begin(_only(link), passed, context.components):
                link.forced_root = True
                passed = _Behind.NOTHING
            behind[id(link)] = passed | _done_by(_only(link))
    return stages


def _only(stage: Any) -> _protos.PTransform:
    (transform,) = stage.transforms
    return transform


def _done_by(transform: _protos.PTransform) -> _Behind:
    urn, payload = transform.spec.urn, transform.spec.payload
    if urn == transform_urns.DATA_SOURCE and payload.startswith(_GROUPS):
        return _Behind.GROUPING
    if stateful_payload(transform) is not None:
        return _Behind.GROUPING
    return _Behind.WINDOWING if urn == transform_urns.ASSIGN_WINDOWS else _Behind.NOTHING


def _must_begin(
    transform: _protos.PTransform, passed: _Behind, components: _protos.Components
) -> bool:
    if stateful_payload(transform) is not None or needs_stable_input(transform):
        return True
    if passed is _Behind.NOTHING:
        return False
    sides = [components.pcollections[transform.inputs[t]] for t in side_inputs_of(transform)]
    if _Behind.GROUPING in passed:
        return bool(sides)
    return any(is_unbounded(side) and not _is_global(side, components) for side in sides)


def _is_global(pcollection: _protos.PCollection, components: _protos.Components) -> bool:
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    return isinstance(window_fn(strategy.window_fn), GlobalWindows)
