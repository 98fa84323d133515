"""Validation of a submitted pipeline: missing ids, cycles, and exceeded size limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.graph import PipelineGraph, TransformNode
from beam_runner_jobservices.sizes import find_exceeded_limits

_SHOWN = 5


def check_graph(graph: PipelineGraph) -> None:
    """Checks the ids, the nesting and the sizes of a pipeline.

    Every id must be among the components, no transform or coder may contain itself, composites must
    form a tree, and nothing may be too large (see `sizes`). The time is linear in the size of the
    pipeline.

    Raises:
        InvalidRequest: the text names the first few problems, with the full names of the
            transforms.
    """
    problems = list(_find_problems(graph))
    if problems:
        raise InvalidRequest(f"the pipeline is malformed: {_join_first_problems(problems)}")
    too_much = list(find_exceeded_limits(graph))
    if too_much:
        raise InvalidRequest(f"the pipeline is too large: {_join_first_problems(too_much)}")


def _join_first_problems(problems: Sequence[str]) -> str:
    text = "; ".join(problems[:_SHOWN])
    if len(problems) > _SHOWN:
        text += f"; and {len(problems) - _SHOWN} more problems"
    return text


def _find_problems(graph: PipelineGraph) -> Iterator[str]:
    if not graph.roots and graph.transforms:
        yield "the pipeline has transforms, but no root transform"
    for transform_id in graph.roots:
        if transform_id not in graph.transforms:
            yield f"the root transform {transform_id!r} is missing"
    for transform_id, transform in graph.transforms.items():
        where = f"transform {transform.name!r} (id {transform_id!r})"
        for problem in _find_transform_problems(graph, transform):
            yield f"{where} {problem}"
    yield from _find_pcollection_problems(graph)
    yield from _find_windowing_problems(graph)
    for coder_id, parts in graph.coders.items():
        for part in parts:
            if part not in graph.coders:
                yield (f"coder {coder_id!r} has the component coder {part!r}, which is missing")
    names = {key: node.name for key, node in graph.transforms.items()}
    subtransforms = {key: node.subtransforms for key, node in graph.transforms.items()}
    if (circle := _find_node_in_cycle(subtransforms)) is not None:
        yield f"transform {names[circle]!r} (id {circle!r}) contains itself"
    parents = Counter(part for parts in (graph.roots, *subtransforms.values()) for part in parts)
    for transform_id, count in parents.items():
        if count > 1 and transform_id in names:
            yield (
                f"transform {names[transform_id]!r} (id {transform_id!r}) occurs"
                f" {count} times among the roots and the parts of composites"
            )
    if (circle := _find_node_in_cycle(graph.coders)) is not None:
        yield f"coder {circle!r} contains itself"


def _find_transform_problems(graph: PipelineGraph, transform: TransformNode) -> Iterator[str]:
    for subtransform in transform.subtransforms:
        if subtransform not in graph.transforms:
            yield f"has the subtransform {subtransform!r}, which is missing"
    for verb, ends in (("reads", transform.inputs), ("writes", transform.outputs)):
        for tag, pcollection in ends.items():
            if pcollection not in graph.pcollections:
                yield (f"{verb} the PCollection {pcollection!r} as {tag!r}, which is missing")
    if transform.environment_id and transform.environment_id not in graph.environments:
        yield f"runs in the environment {transform.environment_id!r}, which is missing"
    for coder_id in transform.payload_coder_ids:
        if coder_id not in graph.coders:
            yield f"uses the coder {coder_id!r}, which is missing"
    for tag in transform.side_input_tags:
        if tag not in transform.inputs:
            yield f"has the side input {tag!r}, which is not among its inputs"


def _find_pcollection_problems(graph: PipelineGraph) -> Iterator[str]:
    for pcollection_id, pcollection in graph.pcollections.items():
        if pcollection.coder_id not in graph.coders:
            yield (
                f"PCollection {pcollection_id!r} has the coder"
                f" {pcollection.coder_id!r}, which is missing"
            )
        if pcollection.windowing_strategy_id not in graph.windowings:
            yield (
                f"PCollection {pcollection_id!r} has the windowing strategy"
                f" {pcollection.windowing_strategy_id!r}, which is missing"
            )


def _find_windowing_problems(graph: PipelineGraph) -> Iterator[str]:
    for windowing_id, windowing in graph.windowings.items():
        where = f"windowing strategy {windowing_id!r}"
        if windowing.window_coder_id and windowing.window_coder_id not in graph.coders:
            yield (f"{where} has the window coder {windowing.window_coder_id!r}, which is missing")
        if windowing.environment_id and windowing.environment_id not in graph.environments:
            yield (f"{where} has the environment {windowing.environment_id!r}, which is missing")


def _find_node_in_cycle(edges: Mapping[str, Iterable[str]]) -> str | None:
    """Returns a node on a cycle, or None if no cycle exists."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return str(error.args[1][0])
    return None
