"""Limits of a pipeline's size, which real pipelines don't reach, and which protect the server from overload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

import attrs

from beam_runner_jobservices.graph import PipelineGraph

_SHOWN_CHARS = 60


@attrs.frozen
class PipelineLimits:
    """Limits of one pipeline.

    Attributes:
        transforms, pcollections, coders, windowing_strategies, environments: the maximum numbers.
        composites_deep: the maximum depth of nested composites.
        coders_deep: the maximum depth of nested coders.
        name_chars: the maximum length of a full name or an id. Beam's dataframes make names of 165
            characters for each column of a file.
        job_name_chars: the maximum length of the job's name.
    """

    transforms: int = 30_000
    pcollections: int = 60_000
    coders: int = 60_000
    windowing_strategies: int = 10_000
    environments: int = 1_000
    composites_deep: int = 500
    coders_deep: int = 50
    name_chars: int = 100_000
    job_name_chars: int = 20_000


PIPELINE_LIMITS = PipelineLimits()


def find_exceeded_limits(
    graph: PipelineGraph, limits: PipelineLimits = PIPELINE_LIMITS
) -> Iterator[str]:
    """Yields a description of each exceeded limit, with the size, the limit and the name of the
    transform or coder.

    The caller must have checked that no transform or coder contains itself. The time is linear in
    the size of the pipeline, and the function doesn't recurse.
    """
    counts = (
        ("transforms", len(graph.transforms), limits.transforms),
        ("PCollections", len(graph.pcollections), limits.pcollections),
        ("coders", len(graph.coders), limits.coders),
        ("windowing strategies", len(graph.windowings), limits.windowing_strategies),
        ("environments", len(graph.environments), limits.environments),
    )
    for what, count, most in counts:
        if count > most:
            yield f"the pipeline has {count} {what}; the maximum is {most}"
    names = {key: node.name for key, node in graph.transforms.items()}
    for name in (*names, *names.values(), *graph.pcollections, *graph.coders, *graph.environments):
        if len(name) > limits.name_chars:
            yield (
                f"the name that starts with {name[:_SHOWN_CHARS]!r} has {len(name)}"
                f" characters; the maximum is {limits.name_chars}"
            )
    parts = {key: node.subtransforms for key, node in graph.transforms.items()}
    for what, edges, most in (
        ("transform", parts, limits.composites_deep),
        ("coder", graph.coders, limits.coders_deep),
    ):
        deepest, depth = _find_deepest_node(edges)
        if depth > most:
            shown = names.get(deepest, deepest)[:_SHOWN_CHARS]
            yield (f"the {what} {shown!r} has {depth} levels of parts; the maximum is {most}")


def _find_deepest_node(parts: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Returns the most deeply nested node, and the number of levels down to this node, including
    the node.
    """
    levels: dict[str, int] = {}
    for node in TopologicalSorter(parts).static_order():
        levels[node] = 1 + max((levels[part] for part in parts.get(node, ())), default=0)
    return max(levels.items(), key=lambda item: item[1], default=("", 0))
