"""Graph of stages, validated and sorted so that each stage comes after the stages that it reads
from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import attrs

from beam_runner_engine.scheduler.errors import GraphError
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    GraphSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
)

ROOT = -1
"""Producer number of root data, which the `Start` event contains."""


def get_test_stream_producer(number: int) -> int:
    """Returns the producer number of a TestStream from its index in the graph."""
    return -2 - number


@attrs.frozen
class CollectionNode:
    """Collection in the graph, with its producers and readers. Stages are identified by number."""

    name: str
    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    side_consumers: tuple[tuple[int, int], ...]
    """Pairs of a stage number and the index of the side input in the stage's spec."""
    keyed: bool
    """Whether a keyed stage reads the collection, so that its data must have a shard."""


@attrs.frozen
class Section:
    """Section: stages that can run as one bundle. The stages form a tree in which each inner
    collection has one reader.

    `stages` holds stage numbers in order. `heads` holds the stages that read their main input from
    outside the section. `inner` holds the collections between stages of the section.
    """

    stages: tuple[int, ...]
    heads: tuple[int, ...]
    inner: tuple[str, ...]
    outputs: tuple[str, ...]
    """Collections that the stages write for readers outside the section."""


@attrs.frozen
class Graph:
    """Validated graph. The number of a stage is greater than the numbers of the stages that it
    reads from.
    """

    stages: tuple[StageSpec, ...]
    collections: dict[str, CollectionNode]
    roots: tuple[str, ...]
    test_streams: tuple[TestStreamSpec, ...]

    @property
    def scripted_clock(self) -> bool:
        """Whether a TestStream advances processing time. The job then ignores the caller's clock."""
        return any(
            isinstance(step, AdvanceProcessingTime)
            for stream in self.test_streams
            for step in stream.steps
        )


def compile_graph(spec: GraphSpec) -> Graph:
    """Validates a graph and numbers its stages, in time proportional to the size of the graph.

    Raises:
        GraphError: If the graph is invalid.
    """
    _check_names("stage", (stage.name for stage in spec.stages))
    _check_names("TestStream", (stream.name for stream in spec.test_streams))
    for stage in spec.stages:
        _check_stage(stage)
    for stream in spec.test_streams:
        _check_test_stream(stream)
    stages = _sort_stages(spec.stages)
    return Graph(
        stages=stages,
        collections=_build_collections(spec, stages),
        roots=spec.roots,
        test_streams=spec.test_streams,
    )


def _check_names(what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(f"The graph has {count} {what}s named {name!r}; names must be unique")


def _check_stage(stage: StageSpec) -> None:
    where = f"stage {stage.name!r}"
    if not stage.inputs:
        raise GraphError(f"{where} has no input, so the stage could never start")
    _check_names(f"inputs of {where}", stage.inputs)
    _check_names(f"outputs of {where}", stage.outputs)
    _check_names(f"side inputs of {where}", (side.name for side in stage.side_inputs))
    if stage.kind is StageKind.GROUPING and (stage.side_inputs or stage.splittable):
        raise GraphError(
            f"{where} is a GROUPING stage, which can't be splittable or have side inputs"
        )
    if stage.joint_shards and not (stage.is_keyed and stage.whole_input):
        raise GraphError(
            f"{where} can't have joint_shards: the stage must be keyed and have whole_input"
        )
    if stage.joint_pieces and (stage.is_keyed or stage.splittable or stage.whole_input):
        raise GraphError(
            f"{where} can't have joint_pieces: the stage must not be keyed, splittable or have whole_input"
        )
    if stage.is_keyed and stage.splittable:
        raise GraphError(f"{where} is keyed, so the stage can't be splittable")
    if stage.spans and stage.is_keyed and not stage.whole_input:
        raise GraphError(
            f"{where} can't be in a section: a keyed stage in a section must have whole_input"
        )


def _check_test_stream(stream: TestStreamSpec) -> None:
    watermarks: dict[str, int] = {}
    for step in stream.steps:
        if isinstance(step, AdvanceProcessingTime):
            if step.duration < 0:
                raise GraphError(f"TestStream {stream.name!r} moves processing time backward")
            continue
        if step.collection not in stream.outputs:
            raise GraphError(
                f"TestStream {stream.name!r} has a step for {step.collection!r}, which is not an output of the TestStream"
            )
        if isinstance(step, AddElements):
            continue
        if step.watermark < watermarks.get(step.collection, step.watermark):
            raise GraphError(
                f"TestStream {stream.name!r} moves the watermark of {step.collection!r} backward"
                f" to {step.watermark} ms"
            )
        watermarks[step.collection] = step.watermark


def _list_read_collections(stage: StageSpec) -> set[str]:
    return {*stage.inputs, *(side.collection for side in stage.side_inputs)}


def _sort_stages(stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    readers: dict[str, list[int]] = {}
    for number, stage in enumerate(stages):
        for name in _list_read_collections(stage):
            readers.setdefault(name, []).append(number)
    missing = [0] * len(stages)
    for stage in stages:
        for name in stage.outputs:
            for reader in readers.get(name, ()):
                missing[reader] += 1
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(stages[number])
        for name in stages[number].outputs:
            for reader in readers.get(name, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    heappush(ready, reader)
    if len(order) < len(stages):
        names = sorted(stage.name for stage, count in zip(stages, missing, strict=True) if count)
        raise GraphError(f"The graph has a cycle through these stages: {names}")
    return tuple(order)


def _build_collections(spec: GraphSpec, stages: tuple[StageSpec, ...]) -> dict[str, CollectionNode]:
    producers: dict[str, list[int]] = {}
    for name in spec.roots:
        producers.setdefault(name, []).append(ROOT)
    for number, stream in enumerate(spec.test_streams):
        for name in stream.outputs:
            producers.setdefault(name, []).append(get_test_stream_producer(number))
    for name, numbers in producers.items():
        if len(numbers) > 1:
            raise GraphError(
                f"Collection {name!r} occurs more than once among roots and TestStream outputs"
            )
    consumers: dict[str, list[int]] = {}
    side_consumers: dict[str, list[tuple[int, int]]] = {}
    for number, stage in enumerate(stages):
        for name in stage.outputs:
            producers.setdefault(name, []).append(number)
        for name in stage.inputs:
            consumers.setdefault(name, []).append(number)
        for place, side in enumerate(stage.side_inputs):
            side_consumers.setdefault(side.collection, []).append((number, place))
    for stage in stages:
        for name in sorted(_list_read_collections(stage)):
            if name not in producers:
                raise GraphError(
                    f"Stage {stage.name!r} reads {name!r}, but no stage, root or TestStream produces this collection"
                )
    return {
        name: CollectionNode(
            name=name,
            producers=tuple(numbers),
            consumers=tuple(consumers.get(name, ())),
            side_consumers=tuple(side_consumers.get(name, ())),
            keyed=any(stages[number].is_keyed for number in consumers.get(name, ())),
        )
        for name, numbers in producers.items()
    }
