"""Graph of fused stages and buffers. The module chooses the kind of each buffer, and removes stages
without work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
from beam_runner_model.buffers import BufferKind, SideInputUse
from beam_runner_urns import side_inputs as side_input_urns

from beam_runner_planner import _protos, scripts
from beam_runner_planner.fusion import FusedStage
from beam_runner_planner.identities import identify_stage
from beam_runner_planner.side_inputs import get_side_inputs
from beam_runner_planner.stateful import find_first_stateful_transform
from beam_runner_planner.steps import IMPULSE_BUFFER, buffer_id

_KIND_OF_PREFIX = {
    "materialize": BufferKind.STORED,
    "flatten": BufferKind.STORED,
    "deal": BufferKind.DEALT,
    "group": BufferKind.GROUPED,
    scripts.KIND: BufferKind.STORED,
}
_SIDE_KINDS = {
    side_input_urns.ITERABLE: BufferKind.SIDE_ITERABLE,
    side_input_urns.MULTIMAP: BufferKind.SIDE_MULTIMAP,
}
_COPIES = frozenset({BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP, BufferKind.KEYED})
_MOST_PASSED_ON = 32
_NAMES_SHOWN = 20


@attrs.frozen
class BufferSink:
    """A PCollection that a stage writes into a buffer."""

    pcollection_id: str
    buffer_id: str


@attrs.frozen
class StageNode:
    """Fused stage in the plan graph, with its input, outputs and side inputs.

    Attributes:
        name: the display name of the stage.
        identity: the name of the stage in plans of edited pipelines; see `identities`.
        environment_id: the SDK environment; None if no transform in the stage needs an SDK.
        source_buffer: the buffer that the stage reads; None for an impulse.
        source_pcollection: the PCollection that enters the stage.
        sinks: the edges that the stage writes, in a fixed order and without duplicates.
        side_inputs: the side inputs of the stage's transforms.
    """

    name: str
    identity: str
    transforms: tuple[_protos.PTransform, ...]
    environment_id: str | None
    source_buffer: str | None
    source_pcollection: str
    sinks: tuple[BufferSink, ...]
    side_inputs: tuple[SideInputUse, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the stage only moves elements between buffers."""
        return not self.transforms


@attrs.frozen
class PlanGraph:
    """Graph of stages (nodes) and buffers. The writers of a buffer come before its readers."""

    nodes: tuple[StageNode, ...]
    kinds: Mapping[str, BufferKind]


def build_graph(stages: Iterable[FusedStage]) -> PlanGraph:
    """Connects fused stages by buffers, bypasses empty stages, and removes writes to unread buffers."""
    kinds: dict[str, BufferKind] = {}
    nodes = _remove_writes_to_unread_buffers(
        [_build_stage_node(stage, kinds) for stage in stages], kinds
    )
    read = _list_buffers_with_readers(nodes)
    return PlanGraph(tuple(nodes), {b: kind for b, kind in kinds.items() if b in read})


def _build_stage_node(stage: FusedStage, kinds: dict[str, BufferKind]) -> StageNode:
    source_buffer = None
    if stage.source.spec.payload != IMPULSE_BUFFER:
        source_buffer = _add_buffer(stage.source.spec.payload, kinds)
    (source_pcollection,) = stage.source.outputs.values()
    if source_buffer is not None and find_first_stateful_transform(
        stage.transforms, source_pcollection
    ):
        source_buffer = f"{BufferKind.KEYED.value}:{source_buffer}"
        kinds[source_buffer] = BufferKind.KEYED
    sinks = []
    for sink in stage.sinks:
        (pcollection_id,) = sink.inputs.values()
        sinks.append(BufferSink(pcollection_id, _add_buffer(sink.spec.payload, kinds)))
    return StageNode(
        name=_join_names([t.unique_name for t in stage.transforms] or [stage.source.unique_name]),
        identity=identify_stage(stage, source_buffer),
        transforms=stage.transforms,
        environment_id=stage.environment_id,
        source_buffer=source_buffer,
        source_pcollection=source_pcollection,
        sinks=tuple(sinks),
        side_inputs=tuple(_list_side_input_uses(stage.transforms, kinds)),
    )


def _join_names(names: Sequence[str]) -> str:
    """Returns one name for a list of names; from a long list, only the first and the last names."""
    if len(names) > _NAMES_SHOWN:
        names = [names[0], f"... {len(names) - 2} more transforms ...", names[-1]]
    return " + ".join(names)


def _add_buffer(payload: bytes, kinds: dict[str, BufferKind]) -> str:
    buffer = payload.decode()
    kinds[buffer] = _KIND_OF_PREFIX[buffer.split(":", 1)[0]]
    return buffer


def _list_side_input_uses(
    transforms: Iterable[_protos.PTransform], kinds: dict[str, BufferKind]
) -> Iterable[SideInputUse]:
    for transform in transforms:
        for tag, side_input in sorted(get_side_inputs(transform).items()):
            stored = buffer_id("materialize", transform.inputs[tag]).decode()
            kind = _SIDE_KINDS[side_input.access_pattern.urn]
            side = f"{kind.value}:{stored}"
            kinds[side] = kind
            yield SideInputUse(transform.unique_name, tag, side)


def _remove_writes_to_unread_buffers(
    nodes: Sequence[StageNode], kinds: Mapping[str, BufferKind]
) -> list[StageNode]:
    """Returns the stages that do work, in order. Each stage writes only buffers that another stage
    reads.

    Readers read side inputs by window (and key), and the input of stateful transforms by key. The
    producing stage writes a stored PCollection once for each of these ways. The writers of an empty
    node's input also write its outputs, so a Flatten before a GroupByKey costs nothing. Stages
    don't write PCollections without readers.

    Readers come after writers, so one backward pass finds all destinations.
    """
    read: dict[str, dict[str, None]] = {}
    passed: dict[str, list[str]] = {}

    def mark_as_read(buffer: str) -> None:
        # The name of a PCollection's copy begins with the name of the stored PCollection, because
        # sinks refer to the stored PCollection by name.
        stored = buffer.split(":", 1)[1] if kinds[buffer] in _COPIES else buffer
        read.setdefault(stored, {})[buffer] = None

    for node in nodes:
        for use in node.side_inputs:
            mark_as_read(use.buffer_id)
    kept: list[StageNode] = []
    for node in reversed(nodes):
        sinks = tuple(
            BufferSink(sink.pcollection_id, target)
            for sink in node.sinks
            for target in (*read.get(sink.buffer_id, ()), *passed.get(sink.buffer_id, ()))
        )
        if node.is_empty and not sinks:
            continue
        if _is_bypassable(node, kinds) and len(sinks) <= _MOST_PASSED_ON:
            targets = passed.setdefault(str(node.source_buffer), [])
            targets += [sink.buffer_id for sink in sinks]
            continue
        kept.append(attrs.evolve(node, sinks=sinks))
        if node.source_buffer is not None:
            mark_as_read(node.source_buffer)
    return kept[::-1]


def _is_bypassable(node: StageNode, kinds: Mapping[str, BufferKind]) -> bool:
    """Returns whether a stage can be removed, because the stages that write the stage's input can
    also write the stage's outputs.

    The writers can't if the node reads groups, because a group is a new element. The writers can't
    if neither a stage nor a script writes the input.
    """
    return (
        node.is_empty
        and node.source_buffer is not None
        and not node.source_buffer.startswith(f"{scripts.KIND}:")
        and kinds[node.source_buffer] is BufferKind.STORED
    )


def _list_buffers_with_readers(nodes: Iterable[StageNode]) -> set[str]:
    read = {node.source_buffer for node in nodes if node.source_buffer is not None}
    read.update(use.buffer_id for node in nodes for use in node.side_inputs)
    return read
