"""Preparation of a stage's descriptor for an SDK harness: sets the service endpoints, and compiles the
coders of inputs and outputs.

An SDK encodes residuals of the input and keys of user state with the coders of the PCollection.
The PCollection's coders can differ from the coders at the stage's edge, which add length prefixes
to data that the runner can't read. So this module sets the edge's coders on a PCollection with
restrictions and on the input of a stateful transform.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.stages import HarnessStage, InputKind
from beam_runner_urns import transforms as urns

from beam_runner_worker._protos import beam_fn_api_pb2, endpoints_pb2
from beam_runner_worker.fnapi.cache_tokens import find_cacheable_side_inputs
from beam_runner_worker.fnapi.chunking import EdgeCoder, compile_edge_coder
from beam_runner_worker.fnapi.keyed_chunking import create_chunker
from beam_runner_worker.fnapi.large_groups import enable_state_reads
from beam_runner_worker.fnapi.side_inputs import SideInputCoders
from beam_runner_worker.fnapi.stateful import StatefulLayout, prepare_stateful_transforms
from beam_runner_worker.writers import find_writer

_WITH_RESTRICTIONS = frozenset(
    {urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS, urns.TRUNCATE_SIZED_RESTRICTION}
)


@attrs.frozen
class SdkStagePlan:
    """Stage with all data that the Fn API harness needs to run it.

    Attributes:
        descriptor: the complete descriptor for the SDK.
        input: the layout of the input's elements; None if the input consists of groups.
        large_groups: whether the SDK reads the values of large groups as state.
        heads: ids of the transforms that read the stage's input.
        edges: the layout of the elements of each output, by transform id.
        cacheable: the side inputs that the SDK keeps across bundles.
    """

    spec: HarnessStage
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    input: EdgeCoder | None
    large_groups: bool
    heads: frozenset[str]
    edges: Mapping[str, EdgeCoder]
    side_inputs: SideInputCoders
    stateful: StatefulLayout
    cacheable: tuple[tuple[str, str], ...] = ()

    def find_writer(self, sink: str) -> str:
        """Returns the full name of the transform that writes to a data sink."""
        return find_writer(self.descriptor, sink)


def plan_stage(spec: HarnessStage, endpoint: str) -> SdkStagePlan:
    """Completes the descriptor of a stage, and compiles the coders of the stage's input and
    outputs.

    Args:
        endpoint: address of the data and state services.

    Raises:
        ValueError: The descriptor lacks a source or sink of the stage, or a stateful transform
            doesn't read the stage's input.
        UnknownCoder: The coder of an input or output doesn't show where an encoded element ends.
            The message names the transform and the coder.
    """
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    descriptor.id = spec.stage_id
    descriptor.state_api_service_descriptor.url = endpoint
    source = spec.input.transform_id
    port = _set_data_endpoint(descriptor, source, urns.DATA_SOURCE, endpoint)
    inputs = frozenset(descriptor.transforms[source].outputs.values())
    heads = {
        transform_id: transform
        for transform_id, transform in descriptor.transforms.items()
        if not inputs.isdisjoint(transform.inputs.values())
    }
    layout = None
    if spec.input.kind is InputKind.ELEMENTS:
        layout = compile_edge_coder(port.coder_id, descriptor.coders, source)
    large_groups = layout is None and enable_state_reads(descriptor, source, spec.environment_id)
    stateful = prepare_stateful_transforms(descriptor, heads, port.coder_id)
    if stateful.timers:
        descriptor.timer_api_service_descriptor.url = endpoint
    with_restrictions = any(head.spec.urn in _WITH_RESTRICTIONS for head in heads.values())
    if stateful.present or (with_restrictions and layout is not None):
        for pcollection_id in inputs:
            _use_edge_coders(descriptor, pcollection_id, port.coder_id)
    edges = {}
    for edge in spec.outputs:
        port = _set_data_endpoint(descriptor, edge.transform_id, urns.DATA_SINK, endpoint)
        edges[edge.transform_id] = compile_edge_coder(
            port.coder_id, descriptor.coders, edge.transform_id
        )
        create_chunker(edge, edges[edge.transform_id])
    return SdkStagePlan(
        spec=spec,
        descriptor=descriptor,
        input=layout,
        large_groups=large_groups,
        heads=frozenset(heads),
        edges=edges,
        side_inputs=SideInputCoders(descriptor),
        stateful=stateful,
        cacheable=find_cacheable_side_inputs(descriptor),
    )


def _use_edge_coders(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, pcollection_id: str, coder_id: str
) -> None:
    """Sets the element and window coders of a PCollection to those of the edge's windowed coder."""
    pcollection = descriptor.pcollections[pcollection_id]
    element_id, window_id = descriptor.coders[coder_id].component_coder_ids
    pcollection.coder_id = element_id
    strategy = descriptor.windowing_strategies[pcollection.windowing_strategy_id]
    if strategy.window_coder_id != window_id:
        name = f"{pcollection.windowing_strategy_id}/{coder_id}"
        descriptor.windowing_strategies[name].CopyFrom(strategy)
        descriptor.windowing_strategies[name].window_coder_id = window_id
        pcollection.windowing_strategy_id = name


def _set_data_endpoint(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, transform_id: str, urn: str, endpoint: str
) -> beam_fn_api_pb2.RemoteGrpcPort:
    """Sets the data endpoint in the port of a data source or sink, and returns the port."""
    if transform_id not in descriptor.transforms:
        raise ValueError(f"the stage {descriptor.id!r} has no transform {transform_id!r}")
    spec = descriptor.transforms[transform_id].spec
    if spec.urn != urn:
        raise ValueError(
            f"the transform {transform_id!r} has the URN {spec.urn!r}; expected {urn!r}"
        )
    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(spec.payload)
    port.api_service_descriptor.CopyFrom(endpoints_pb2.ApiServiceDescriptor(url=endpoint))
    spec.payload = port.SerializeToString()
    return port
