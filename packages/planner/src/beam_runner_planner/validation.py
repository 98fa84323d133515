"""Search for malformed parts of a pipeline, so that the other modules of the translation can rely
on the pipeline's structure.

The job service has already checked the references and the size of the pipeline, with
`beam_runner_jobservices.wire.pipelines.check_pipeline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beam_runner_model.window_fns import FixedWindows, Sessions, SlidingWindows
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.ordering import find_nodes_around_cycles
from beam_runner_planner.transform_checks import find_transform_problems
from beam_runner_planner.windowing import convert_trigger, convert_window_fn

_SHOWN = 5
_LONGEST_MS = 315_576_000_000_000
_PARTS: Mapping[str, int] = {
    coder_urns.KV: 2,
    coder_urns.ITERABLE: 1,
    coder_urns.STATE_BACKED_ITERABLE: 1,
    coder_urns.LENGTH_PREFIX: 1,
    coder_urns.NULLABLE: 1,
    coder_urns.SHARDED_KEY: 1,
    coder_urns.CUSTOM_WINDOW: 1,
    coder_urns.TIMER: 2,
    coder_urns.WINDOWED_VALUE: 2,
    coder_urns.PARAM_WINDOWED_VALUE: 2,
}


def parse_and_check_pipeline(data: bytes) -> _protos.Pipeline:
    """Parses a serialized pipeline and checks the pipeline's structure, in linear time.

    Raises:
        InvalidPipeline: the text names the first few problems, and their places.
    """
    try:
        pipeline = _protos.Pipeline.FromString(data)
    except _protos.DecodeError as error:
        raise InvalidPipeline(
            "Can't parse the pipeline: not a message of the Beam model"
        ) from error
    problems = list(_find_problems(pipeline))
    if problems:
        more = f"; and {len(problems) - _SHOWN} more problems" if len(problems) > _SHOWN else ""
        raise InvalidPipeline(f"the pipeline is malformed: {'; '.join(problems[:_SHOWN])}{more}")
    return pipeline


def _find_problems(pipeline: _protos.Pipeline) -> Iterator[str]:
    components = pipeline.components
    yield from _find_coder_problems(components)
    yield from _find_strategy_problems(components)
    run = dict(list_leaf_transforms(pipeline.root_transform_ids, components))
    for transform in run.values():
        for problem in find_transform_problems(transform, components):
            yield f"the transform {transform.unique_name!r} {problem}"
    yield from _find_dataflow_problems(run)


def _find_coder_problems(components: _protos.Components) -> Iterator[str]:
    for coder_id, coder in components.coders.items():
        parts = len(coder.component_coder_ids)
        if parts != _PARTS.get(coder.spec.urn, parts):
            yield (
                f"the coder {coder_id!r} of kind {coder.spec.urn!r} has {parts}"
                f" component coders; expected {_PARTS[coder.spec.urn]}"
            )


def _find_strategy_problems(components: _protos.Components) -> Iterator[str]:
    for strategy_id, strategy in components.windowing_strategies.items():
        where = f"the windowing strategy {strategy_id!r}"
        if strategy.window_coder_id not in components.coders:
            yield f"{where} has no window coder"
        if strategy.allowed_lateness < 0:
            yield f"{where} has a negative allowed lateness"
        try:
            convert_trigger(strategy.trigger)
            longest = _find_longest_duration(convert_window_fn(strategy.window_fn))
        except _protos.DecodeError:
            urn = strategy.window_fn.urn
            yield (f"{where} has a window function with a payload that doesn't match {urn!r}")
        except ValueError as error:
            yield f"{where} is invalid: {error}"
        else:
            if longest > _LONGEST_MS:
                yield (f"{where} has windows of {longest} ms; the maximum is {_LONGEST_MS} ms")


def _find_longest_duration(windows: Any) -> int:
    match windows:
        case FixedWindows(size, offset):
            return max(size, abs(offset))
        case SlidingWindows(size, period, offset):
            return max(size, period, abs(offset))
        case Sessions(gap):
            return gap
        case _:
            return 0


def _find_dataflow_problems(run: Mapping[str, _protos.PTransform]) -> Iterator[str]:
    """Yields a problem for each PCollection without exactly one producer, and for each cycle."""
    made_by: dict[str, str] = {}
    for transform_id, transform in run.items():
        for pcollection_id in set(transform.outputs.values()) - set(transform.inputs.values()):
            if pcollection_id in made_by:
                names = (run[made_by[pcollection_id]].unique_name, transform.unique_name)
                yield (
                    f"the PCollection {pcollection_id!r} is the output of two transforms, {names}"
                )
            made_by[pcollection_id] = transform_id
    for transform in run.values():
        for tag, pcollection_id in transform.inputs.items():
            if pcollection_id not in made_by:
                yield (
                    f"the transform {transform.unique_name!r} reads the PCollection"
                    f" {pcollection_id!r} as {tag!r}, which isn't an output of any"
                    " transform"
                )
    circle = find_nodes_around_cycles(
        run, lambda one: [made_by[p] for p in run[one].inputs.values() if p in made_by]
    )
    if circle:
        waiting = sorted(run[transform_id].unique_name for transform_id in circle)[:3]
        yield f"the transforms {', '.join(map(repr, waiting))} form a cycle"
