"""Bundle descriptors: the part of a pipeline that an SDK harness needs to run one stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.stages import HarnessStage, InputEdge, InputKind, OutputEdge, OutputKind
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns
from beam_runner_urns.payloads import COMBINE_PARTS

from beam_runner_planner import _protos
from beam_runner_planner.digest_environment import DIGEST_ENVIRONMENT, replace_unknown_coders
from beam_runner_planner.fusion import FusedPipeline
from beam_runner_planner.graph import PlanGraph, StageNode
from beam_runner_planner.stateful import list_state_and_timer_coder_ids


class DescriptorBuilder:
    """Builder of the :class:`HarnessStage` of each node of one fused pipeline."""

    def __init__(
        self,
        fused: FusedPipeline,
        graph: PlanGraph,
        buffers: Mapping[str, BufferPlan],
        streaming: bool,
    ) -> None:
        self._buffers = buffers
        self._streaming = streaming
        self._components = fused.components
        self._edge_coders = fused.edge_coders
        self._script_coders = fused.script_coders
        self._written = {s.buffer_id: s.pcollection_id for n in graph.nodes for s in n.sinks}

    def build(
        self, stage_id: str, node: StageNode, environment_id: str
    ) -> tuple[HarnessStage, dict[str, str]]:
        """Returns the description of the stage for the harness that runs its user code, and the buffer
        of each output edge by transform id.
        """
        descriptor = _protos.ProcessBundleDescriptor(id=stage_id)
        for transform in node.transforms:
            descriptor.transforms[transform.unique_name].CopyFrom(transform)
        source_id = self._add_source(descriptor, node)
        outputs: dict[str, str] = {}
        edges = []
        for index, sink in enumerate(node.sinks):
            sink_id = f"{stage_id}/write/{index}"
            self._add_edge_transform(
                descriptor,
                sink_id,
                transform_urns.DATA_SINK,
                sink.pcollection_id,
                self._edge_coders[sink.pcollection_id],
            )
            outputs[sink_id] = sink.buffer_id
            edges.append(self._build_output_edge(sink_id, self._buffers[sink.buffer_id]))
        self._add_referenced_components(descriptor, environment_id)
        grouped = self._reads_groups(node.source_buffer)
        spec = HarnessStage(
            stage_id=stage_id,
            name=node.name,
            environment_id=environment_id,
            descriptor=descriptor.SerializeToString(deterministic=True),
            input=InputEdge(source_id, InputKind.GROUPS if grouped else InputKind.ELEMENTS),
            outputs=tuple(edges),
        )
        return spec, outputs

    def _reads_groups(self, buffer_id: str | None) -> bool:
        return buffer_id is not None and self._buffers[buffer_id].kind is BufferKind.GROUPED

    def _add_source(self, descriptor: _protos.ProcessBundleDescriptor, node: StageNode) -> str:
        source_id = f"{descriptor.id}/read"
        edge_coder = self._script_coders.get(node.source_buffer or "")
        if edge_coder is None:
            edge_coder = self._get_input_coder(node)
            # The residuals of a splittable DoFn have the coder of its input PCollection, because
            # the stage reads
            # them again.
            pcollection = descriptor.pcollections[node.source_pcollection]
            pcollection.CopyFrom(self._components.pcollections[node.source_pcollection])
            pcollection.coder_id = self._components.coders[edge_coder].component_coder_ids[0]
        self._add_edge_transform(
            descriptor,
            source_id,
            transform_urns.DATA_SOURCE,
            node.source_pcollection,
            edge_coder,
        )
        return source_id

    def _get_input_coder(self, node: StageNode) -> str:
        """Returns the windowed coder of the data that a node reads, which is the coder that wrote the
        data.

        The output PCollection of a reshuffle or a grouping can have another coder than the input,
        for example if the next step groups the output.
        """
        own_id = self._edge_coders[node.source_pcollection]
        written = self._written.get(node.source_buffer or "")
        if written is None:
            return own_id
        written_id = self._edge_coders[written]
        if not self._reads_groups(node.source_buffer):
            return written_id
        coders = self._components.coders
        pair = coders[coders[written_id].component_coder_ids[0]]
        if pair.spec.urn != coder_urns.KV:
            return own_id
        key_id, value_id = pair.component_coder_ids
        values_id = self._add_coder(coder_urns.ITERABLE, value_id)
        group_id = self._add_coder(coder_urns.KV, key_id, values_id)
        window_id = coders[own_id].component_coder_ids[1]
        return self._add_coder(coder_urns.WINDOWED_VALUE, group_id, window_id)

    def _add_coder(self, urn: str, *parts: str) -> str:
        coder_id = f"{urn} of {', '.join(parts)}"
        coder = self._components.coders[coder_id]
        coder.spec.urn = urn
        coder.component_coder_ids[:] = parts
        return coder_id

    def _add_edge_transform(
        self,
        descriptor: _protos.ProcessBundleDescriptor,
        transform_id: str,
        urn: str,
        pcollection_id: str,
        coder_id: str,
    ) -> None:
        port = _protos.RemoteGrpcPort(coder_id=coder_id)
        edge = descriptor.transforms[transform_id]
        edge.unique_name = transform_id
        edge.spec.urn = urn
        edge.spec.payload = port.SerializeToString()
        if urn == transform_urns.DATA_SOURCE:
            edge.outputs["out"] = pcollection_id
        else:
            edge.inputs["in"] = pcollection_id

    def _add_referenced_components(
        self, descriptor: _protos.ProcessBundleDescriptor, environment_id: str
    ) -> None:
        """Copies the PCollections, windowing strategies and coders that the transforms refer to."""
        components = self._components
        coders: set[str] = set()
        for transform in descriptor.transforms.values():
            coders.update(_list_coder_ids_of_payload(transform))
            for pcollection_id in (*transform.inputs.values(), *transform.outputs.values()):
                if pcollection_id not in descriptor.pcollections:
                    descriptor.pcollections[pcollection_id].CopyFrom(
                        components.pcollections[pcollection_id]
                    )
                pcollection = descriptor.pcollections[pcollection_id]
                coders.add(pcollection.coder_id)
                strategy_id = pcollection.windowing_strategy_id
                strategy = components.windowing_strategies[strategy_id]
                descriptor.windowing_strategies[strategy_id].CopyFrom(strategy)
                coders.add(strategy.window_coder_id)
        for coder_id in self._add_component_coders(coders):
            descriptor.coders[coder_id].CopyFrom(components.coders[coder_id])
        for strategy in descriptor.windowing_strategies.values():
            if strategy.environment_id:
                strategy.environment_id = environment_id
        descriptor.environments[environment_id].CopyFrom(components.environments[environment_id])
        if environment_id == DIGEST_ENVIRONMENT:
            replace_unknown_coders(descriptor)

    def _build_output_edge(self, sink_id: str, buffer: BufferPlan) -> OutputEdge:
        streaming = self._streaming
        match buffer.kind:
            case BufferKind.STORED | BufferKind.DEALT:
                return OutputEdge(
                    sink_id,
                    OutputKind.ELEMENTS,
                    min_timestamp=streaming,
                    windows=buffer.windows,
                )
            case BufferKind.GROUPED:
                assert buffer.strategy is not None
                combines = buffer.strategy.timestamp_combiner is not TimestampCombiner.END_OF_WINDOW
                wanted = streaming or combines or not buffer.bulk
                return OutputEdge(sink_id, OutputKind.KEYED, timestamps=wanted)
            case BufferKind.KEYED:
                return OutputEdge(sink_id, OutputKind.KEYED, whole_elements=True)
            case BufferKind.SIDE_ITERABLE:
                return OutputEdge(
                    sink_id, OutputKind.KEYED, keyed_by_element=True, timestamps=streaming
                )
            case BufferKind.SIDE_MULTIMAP:
                return OutputEdge(sink_id, OutputKind.KEYED, timestamps=streaming)

    def _add_component_coders(self, coder_ids: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        waiting = list(coder_ids)
        while waiting:
            coder_id = waiting.pop()
            if coder_id not in reached:
                reached.add(coder_id)
                waiting.extend(self._components.coders[coder_id].component_coder_ids)
        return reached


def _list_coder_ids_of_payload(transform: _protos.PTransform) -> Iterable[str]:
    """Returns the ids of the coders that a transform's payload refers to."""
    urn, payload = transform.spec.urn, transform.spec.payload
    if urn in (transform_urns.DATA_SOURCE, transform_urns.DATA_SINK):
        yield _protos.RemoteGrpcPort.FromString(payload).coder_id
    elif urn in COMBINE_PARTS:
        yield _protos.CombinePayload.FromString(payload).accumulator_coder_id
    elif urn == transform_urns.PAR_DO or urn.startswith("beam:transform:sdf_"):
        pardo = _protos.ParDoPayload.FromString(payload)
        if pardo.restriction_coder_id:
            yield pardo.restriction_coder_id
        yield from list_state_and_timer_coder_ids(pardo)
