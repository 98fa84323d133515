"""The graph of stages, checked and put in an order in which no stage comes before what it reads."""

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
"""The producer number of data that comes with `Start`."""


def test_stream_producer(number: int) -> int:
    """Returns the producer number of a TestStream, given its place in the graph."""
    return -2 - number


@attrs.frozen
class CollectionNode:
    """A collection: who writes it and which stages read it. Stages are told by their number."""

    name: str
    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    side_consumers: tuple[tuple[int, int], ...]
    """Pairs of a stage's number and the place of the side input in its spec."""
    keyed: bool
    """Whether a keyed stage reads it, so that its data must say its shard."""


@attrs.frozen
class Section:
    """Stages that can run as one bundle: a tree, each of whose inner collections has one reader in it.

    Stages are told by their number, in order; `heads` are those of them that read from outside.
    """

    stages: tuple[int, ...]
    heads: tuple[int, ...]
    inner: tuple[str, ...]
    outputs: tuple[str, ...]
    """What its stages write for others."""


@attrs.frozen
class Graph:
    """A checked graph. Stages are numbered so that a stage's number is above those it reads from."""

    stages: tuple[StageSpec, ...]
    collections: dict[str, CollectionNode]
    roots: tuple[str, ...]
    test_streams: tuple[TestStreamSpec, ...]

    @property
    def scripted_clock(self) -> bool:
        """Whether a TestStream, and nothing else, advances processing time."""
        return any(
            isinstance(step, AdvanceProcessingTime)
            for stream in self.test_streams
            for step in stream.steps
        )


def compile_graph(spec: GraphSpec) -> Graph:
    """Checks a graph and numbers its stages; GraphError says what is wrong with it.

    Takes time in proportion to the graph.
    """
    _check_names("stage", (stage.name for stage in spec.stages))
    _check_names("TestStream", (stream.name for stream in spec.test_streams))
    for stage in spec.stages:
        _check_stage(stage)
    for stream in spec.test_streams:
        _check_stream(stream)
    stages = _in_order(spec.stages)
    return Graph(
        stages=stages,
        collections=_collections(spec, stages),
        roots=spec.roots,
        test_streams=spec.test_streams,
    )


def _check_names(what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(f"there are {count} {what}s named {name!r}")


def _check_stage(stage: StageSpec) -> None:
    where = f"stage {stage.name!r}"
    if not stage.inputs:
        raise GraphError(f"{where} has no input, so nothing could ever start it")
    _check_names(f"inputs of {where}", stage.inputs)
    _check_names(f"outputs of {where}", stage.outputs)
    _check_names(f"side inputs of {where}", (side.name for side in stage.side_inputs))
    if stage.kind is StageKind.GROUPING and (stage.side_inputs or stage.splittable):
        raise GraphError(f"{where} is a grouping: it can't be splittable or have side inputs")
    if stage.joint_shards and not (stage.keyed and stage.whole_input):
        raise GraphError(
            f"{where} can't join shards: it is not keyed, or does not wait for its end"
        )
    if stage.joint_pieces and (stage.keyed or stage.splittable or stage.whole_input):
        raise GraphError(f"{where} can't join pieces: it is not an ordinary stage of elements")
    if stage.keyed and stage.splittable:
        raise GraphError(f"{where} is keyed: it can't be splittable")
    if stage.spans and stage.keyed and not stage.whole_input:
        raise GraphError(
            f"{where} can't be in a section: it is keyed, and does not wait for its end"
        )


def _check_stream(stream: TestStreamSpec) -> None:
    watermarks: dict[str, int] = {}
    for step in stream.steps:
        if isinstance(step, AdvanceProcessingTime):
            if step.duration < 0:
                raise GraphError(f"TestStream {stream.name!r} sets processing time back")
            continue
        if step.collection not in stream.outputs:
            raise GraphError(
                f"TestStream {stream.name!r} has a step for {step.collection!r}, which is not an output"
            )
        if isinstance(step, AddElements):
            continue
        if step.watermark < watermarks.get(step.collection, step.watermark):
            raise GraphError(
                f"TestStream {stream.name!r} sets the watermark of {step.collection!r} back"
                f" to {step.watermark} ms"
            )
        watermarks[step.collection] = step.watermark


def _reads(stage: StageSpec) -> set[str]:
    return {*stage.inputs, *(side.collection for side in stage.side_inputs)}


def _in_order(stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    readers: dict[str, list[int]] = {}
    for number, stage in enumerate(stages):
        for name in _reads(stage):
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
        raise GraphError(f"these stages wait for each other's output in a circle: {names}")
    return tuple(order)


def _collections(spec: GraphSpec, stages: tuple[StageSpec, ...]) -> dict[str, CollectionNode]:
    producers: dict[str, list[int]] = {}
    for name in spec.roots:
        producers.setdefault(name, []).append(ROOT)
    for number, stream in enumerate(spec.test_streams):
        for name in stream.outputs:
            producers.setdefault(name, []).append(test_stream_producer(number))
    for name, numbers in producers.items():
        if len(numbers) > 1:
            raise GraphError(
                f"collection {name!r} is given more than once as root or TestStream output"
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
        for name in sorted(_reads(stage)):
            if name not in producers:
                raise GraphError(f"stage {stage.name!r} reads {name!r}, which nothing produces")
    return {
        name: CollectionNode(
            name=name,
            producers=tuple(numbers),
            consumers=tuple(consumers.get(name, ())),
            side_consumers=tuple(side_consumers.get(name, ())),
            keyed=any(stages[number].keyed for number in consumers.get(name, ())),
        )
        for name, numbers in producers.items()
    }
