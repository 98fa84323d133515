"""Descriptions of the buffers between stages: the windows in each buffer, and which buffers are grouped."""

from __future__ import annotations

import attrs
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.triggers import fires_exactly_once
from beam_runner_urns.transforms import PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS

from beam_runner_planner import _protos
from beam_runner_planner.environments import ResolvedEnvironment
from beam_runner_planner.fusion import FusedPipeline
from beam_runner_planner.graph import PlanGraph
from beam_runner_planner.identities import identify_buffers
from beam_runner_planner.merging import plan_window_merging
from beam_runner_planner.stateful import find_first_stateful_transform
from beam_runner_planner.windowing import convert_windowing_strategy


def plan_buffers(
    graph: PlanGraph,
    fused: FusedPipeline,
    environments: dict[str, ResolvedEnvironment],
) -> dict[str, BufferPlan]:
    """Returns the buffers of a graph by id, each with the windowing strategy of the data that stages
    write to it.

    Args:
        graph: the fused stages.
    """
    components = fused.components
    written: dict[str, list[_protos.PCollection]] = {buffer_id: [] for buffer_id in graph.kinds}
    for node in graph.nodes:
        for sink in node.sinks:
            written[sink.buffer_id].append(components.pcollections[sink.pcollection_id])
    for node in graph.nodes:
        # A TestStream's events fill the PCollection that its readers read.
        if node.source_buffer is not None and not written[node.source_buffer]:
            written[node.source_buffer].append(components.pcollections[node.source_pcollection])
    strategies = {
        strategy_id: convert_windowing_strategy(proto, components)
        for strategy_id, proto in components.windowing_strategies.items()
    }
    of_restrictions = {
        node.source_buffer
        for node in graph.nodes
        if any(t.spec.urn == PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS for t in node.transforms)
    }
    identities = identify_buffers(fused.stages, graph.kinds)
    buffers = {
        buffer_id: attrs.evolve(
            _plan_buffer(
                buffer_id, kind, written[buffer_id], strategies, buffer_id in of_restrictions
            ),
            identity=identities[buffer_id],
        )
        for buffer_id, kind in graph.kinds.items()
    }
    names = _map_buffers_to_reader_names(graph)
    for buffer_id, buffer in buffers.items():
        if buffer.kind.is_keyed and written[buffer_id]:
            strategy = components.windowing_strategies[written[buffer_id][0].windowing_strategy_id]
            merging = plan_window_merging(
                f"{buffer_id}/MergeWindows",
                f"{names[buffer_id]}/MergeWindows",
                strategy,
                components,
                environments,
            )
            buffers[buffer_id] = attrs.evolve(buffer, merging=merging)
    return buffers


def _map_buffers_to_reader_names(graph: PlanGraph) -> dict[str, str]:
    """Returns, by buffer id, the full name of the transform that reads the buffer by key: a
    GroupByKey or a stateful transform.
    """
    names = {buffer_id: buffer_id.split(":", 1)[1] for buffer_id in graph.kinds}
    for node in graph.nodes:
        if node.source_buffer is not None:
            head = find_first_stateful_transform(node.transforms, node.source_pcollection)
            if head is not None:
                names[node.source_buffer] = head.unique_name
    return names


def _plan_buffer(
    buffer_id: str,
    kind: BufferKind,
    written: list[_protos.PCollection],
    strategies: dict[str, WindowingStrategy],
    of_restrictions: bool,
) -> BufferPlan:
    strategy = strategies.get(written[0].windowing_strategy_id) if written else None
    bounded = all(p.is_bounded != _protos.IsBounded.UNBOUNDED for p in written)
    if not kind.is_keyed or strategy is None:
        restrictions = kind is BufferKind.DEALT and of_restrictions
        return BufferPlan(buffer_id, kind, strategy, restrictions=restrictions)
    once = kind is BufferKind.KEYED or fires_exactly_once(strategy.trigger)
    return BufferPlan(buffer_id, kind, strategy, bulk=bounded and once, whole=bounded)
