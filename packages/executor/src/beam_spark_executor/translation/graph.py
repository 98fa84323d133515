"""The graph of fused stages and buffers: buffers get their kinds, stages without work disappear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_urns import side_inputs as side_input_urns

from beam_spark_executor import _protos
from beam_spark_executor.plan import BufferKind, SideInputUse
from beam_spark_executor.translation import test_streams
from beam_spark_executor.translation.fusion import IMPULSE_BUFFER, FusedStage
from beam_spark_executor.translation.side_inputs import side_inputs_of
from beam_spark_executor.translation.stateful import stateful_head

_KIND_OF_PREFIX = {
    "materialize": BufferKind.STORED,
    "deal": BufferKind.DEALT,
    "group": BufferKind.GROUPED,
    test_streams.KIND: BufferKind.STORED,
}
_SIDE_KINDS = {
    side_input_urns.ITERABLE: BufferKind.SIDE_ITERABLE,
    side_input_urns.MULTIMAP: BufferKind.SIDE_MULTIMAP,
}


@attrs.frozen
class Sink:
    """A PCollection that a stage writes into a buffer."""

    pcollection_id: str
    buffer_id: str


@attrs.frozen
class Node:
    """A stage with its edges.

    Attributes:
        name: for people.
        transforms: those inside.
        environment_id: None if no transform inside asks for one.
        source_buffer: what it reads; None for an impulse.
        source_pcollection: the PCollection that comes in.
        sinks: what it writes, in a fixed order and without doubles.
        side_inputs: what its transforms read besides.
    """

    name: str
    transforms: tuple[_protos.PTransform, ...]
    environment_id: str | None
    source_buffer: str | None
    source_pcollection: str
    sinks: tuple[Sink, ...]
    side_inputs: tuple[SideInputUse, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it only moves elements from buffer to buffer."""
        return not self.transforms


@attrs.frozen
class Graph:
    """Nodes in an order in which writers of a buffer come before its readers, and buffers' kinds."""

    nodes: tuple[Node, ...]
    kinds: Mapping[str, BufferKind]


def build_graph(stages: Iterable[FusedStage]) -> Graph:
    """Joins fused stages by buffers; empty stages are bypassed and unread buffers not written."""
    kinds: dict[str, BufferKind] = {}
    nodes = [_node(stage, kinds) for stage in stages]
    nodes = _bypass_empty(nodes, kinds)
    nodes = _write_copies(nodes, kinds)
    nodes = _drop_unread(nodes)
    read = _read_buffers(nodes)
    return Graph(tuple(nodes), {b: kind for b, kind in kinds.items() if b in read})


def _node(stage: FusedStage, kinds: dict[str, BufferKind]) -> Node:
    source_buffer = None
    if stage.source.spec.payload != IMPULSE_BUFFER:
        source_buffer = _buffer(stage.source.spec.payload, kinds)
    (source_pcollection,) = stage.source.outputs.values()
    if source_buffer is not None and stateful_head(stage.transforms, source_pcollection):
        source_buffer = f"{BufferKind.KEYED.value}:{source_buffer}"
        kinds[source_buffer] = BufferKind.KEYED
    sinks = []
    for sink in stage.sinks:
        (pcollection_id,) = sink.inputs.values()
        sinks.append(Sink(pcollection_id, _buffer(sink.spec.payload, kinds)))
    return Node(
        name=" + ".join(t.unique_name for t in stage.transforms) or stage.name,
        transforms=stage.transforms,
        environment_id=stage.environment_id,
        source_buffer=source_buffer,
        source_pcollection=source_pcollection,
        sinks=tuple(sinks),
        side_inputs=tuple(_side_inputs(stage.transforms, kinds)),
    )


def _buffer(payload: bytes, kinds: dict[str, BufferKind]) -> str:
    buffer_id = payload.decode()
    kinds[buffer_id] = _KIND_OF_PREFIX[buffer_id.split(":", 1)[0]]
    return buffer_id


def _side_inputs(
    transforms: Iterable[_protos.PTransform], kinds: dict[str, BufferKind]
) -> Iterable[SideInputUse]:
    for transform in transforms:
        for tag, side_input in sorted(side_inputs_of(transform).items()):
            stored = translations.create_buffer_id(transform.inputs[tag]).decode()
            kind = _SIDE_KINDS[side_input.access_pattern.urn]
            buffer_id = f"{kind.value}:{stored}"
            kinds[buffer_id] = kind
            yield SideInputUse(transform.unique_name, tag, buffer_id)


def _bypass_empty(nodes: list[Node], kinds: Mapping[str, BufferKind]) -> list[Node]:
    """Lets the writers of an empty node's input write to its outputs themselves.

    So a Flatten before a GroupByKey costs nothing. Groups can't be passed on this way: what was
    grouped is another element. Nor can what no stage writes, but a script.
    """
    scripted = f"{test_streams.KIND}:"
    while True:
        empty = next(
            (
                node
                for node in nodes
                if node.is_empty
                and node.source_buffer is not None
                and not node.source_buffer.startswith(scripted)
                and (kinds[node.source_buffer] is BufferKind.STORED or not node.sinks)
            ),
            None,
        )
        if empty is None:
            return nodes
        targets = [sink.buffer_id for sink in empty.sinks]
        nodes = [
            _with_further_sinks(node, empty.source_buffer, targets)
            for node in nodes
            if node is not empty
        ]


def _with_further_sinks(node: Node, buffer_id: str | None, targets: Iterable[str]) -> Node:
    """Adds, beside each sink to a buffer, sinks to other buffers; drops no sink."""
    further = [
        Sink(sink.pcollection_id, target)
        for sink in node.sinks
        if sink.buffer_id == buffer_id
        for target in targets
    ]
    return attrs.evolve(node, sinks=(*node.sinks, *further)) if further else node


def _write_copies(nodes: list[Node], kinds: Mapping[str, BufferKind]) -> list[Node]:
    """Adds the sinks that write what is stored anyway once more, in the way that its readers need.

    Side inputs are read by window (and key), the input of stateful transforms by key.
    """
    for buffer_id, kind in kinds.items():
        if kind in (BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP, BufferKind.KEYED):
            stored = buffer_id.split(":", 1)[1]
            nodes = [_with_further_sinks(node, stored, [buffer_id]) for node in nodes]
    return nodes


def _drop_unread(nodes: list[Node]) -> list[Node]:
    """Drops sinks that nobody reads, and then nodes that do nothing, until there are none left."""
    while True:
        read = _read_buffers(nodes)
        kept = [
            attrs.evolve(node, sinks=tuple(s for s in node.sinks if s.buffer_id in read))
            for node in nodes
        ]
        kept = [node for node in kept if node.transforms or node.sinks]
        if kept == nodes:
            return nodes
        nodes = kept


def _read_buffers(nodes: Iterable[Node]) -> set[str]:
    read = {node.source_buffer for node in nodes if node.source_buffer is not None}
    read.update(use.buffer_id for node in nodes for use in node.side_inputs)
    return read
