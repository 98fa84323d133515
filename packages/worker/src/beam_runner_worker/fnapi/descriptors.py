"""Prepares a stage's descriptor for an SDK harness: endpoints in, the layout of its edges out."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_urns import transforms as urns

from beam_runner_worker._protos import beam_fn_api_pb2, endpoints_pb2
from beam_runner_worker.fnapi.cutting import EdgeCoder, compile_edge, cutter_for
from beam_runner_worker.fnapi.side_inputs import SideInputCoders
from beam_runner_worker.records import StageSpec


@attrs.frozen
class StagePlan:
    """A stage as the Fn API harness runs it.

    Attributes:
        spec: the stage.
        descriptor: complete, for the SDK.
        edges: how the elements of each output are laid out, by transform id.
        side_inputs: how those of side inputs are.
    """

    spec: StageSpec
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    edges: Mapping[str, EdgeCoder]
    side_inputs: SideInputCoders


def plan_stage(spec: StageSpec, endpoint: str) -> StagePlan:
    """Completes the descriptor and looks through the coders of its outputs.

    Args:
        spec: the stage.
        endpoint: where data and state are served.

    Raises:
        ValueError: the descriptor lacks a source or sink that the stage names.
        UnknownCoder: an output's elements can't be told apart; names transform and coder.
    """
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    descriptor.id = spec.stage_id
    descriptor.state_api_service_descriptor.url = endpoint
    _open_port(descriptor, spec.input.transform_id, urns.DATA_SOURCE, endpoint)
    edges = {}
    for edge in spec.outputs:
        port = _open_port(descriptor, edge.transform_id, urns.DATA_SINK, endpoint)
        edges[edge.transform_id] = compile_edge(port.coder_id, descriptor.coders, edge.transform_id)
        cutter_for(edge, edges[edge.transform_id])
    return StagePlan(spec, descriptor, edges, SideInputCoders(descriptor))


def _open_port(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, transform_id: str, urn: str, endpoint: str
) -> beam_fn_api_pb2.RemoteGrpcPort:
    """Puts the data endpoint into a source or sink."""
    if transform_id not in descriptor.transforms:
        raise ValueError(f"the stage {descriptor.id!r} has no transform {transform_id!r}")
    spec = descriptor.transforms[transform_id].spec
    if spec.urn != urn:
        raise ValueError(f"the transform {transform_id!r} is {spec.urn!r} instead of {urn!r}")
    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(spec.payload)
    port.api_service_descriptor.CopyFrom(endpoints_pb2.ApiServiceDescriptor(url=endpoint))
    spec.payload = port.SerializeToString()
    return port
