"""How large a pipeline may be: more than anybody writes, and no more than a server can bear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

import attrs

from beam_runner_jobservices.graph import PipelineGraph

_SHOWN_CHARS = 60


@attrs.frozen
class PipelineLimits:
    """Limits of one pipeline.

    - `transforms`, `pcollections`, `coders`, `windowing_strategies`, `environments`: how many.
    - `composites_deep`: how deep composites may be nested; `coders_deep`: coders within coders.
    - `name_chars`: of a full name or an id. Beam's dataframes make them, of 165 characters for each column of a file.
    - `job_name_chars`: of the job's name.
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


def excesses(graph: PipelineGraph, limits: PipelineLimits = PIPELINE_LIMITS) -> Iterator[str]:
    """What is too large, one clause each, with how large it is, the limit, and where.

    Nothing in the pipeline may contain itself. Linear in its size, and takes no stack.
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
            yield f"it has {count} {what}, and {most} is the most"
    names = {key: node.name for key, node in graph.transforms.items()}
    for name in (*names, *names.values(), *graph.pcollections, *graph.coders, *graph.environments):
        if len(name) > limits.name_chars:
            yield (
                f"the name that begins with {name[:_SHOWN_CHARS]!r} has {len(name)} characters, and"
                f" {limits.name_chars} is the most"
            )
    parts = {key: node.subtransforms for key, node in graph.transforms.items()}
    for what, edges, most in (
        ("transform", parts, limits.composites_deep),
        ("coder", graph.coders, limits.coders_deep),
    ):
        deepest, depth = _deepest(edges)
        if depth > most:
            shown = names.get(deepest, deepest)[:_SHOWN_CHARS]
            yield f"the {what} {shown!r} has {depth} levels of parts, and {most} is the most"


def _deepest(parts: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Which has most levels, itself counted, and how many."""
    levels: dict[str, int] = {}
    for node in TopologicalSorter(parts).static_order():
        levels[node] = 1 + max((levels[part] for part in parts.get(node, ())), default=0)
    return max(levels.items(), key=lambda item: item[1], default=("", 0))
