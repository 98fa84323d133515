"""Factories of the operations at which data enters and leaves a stage.

Beam builds an operation for each transform of a descriptor by the transform's URN. This module
gives the inputs and outputs of a stage URNs of this package, and registers factories for these
URNs. :class:`StageEdges` replaces Beam's data channel factory, so that the factories get the
settings of the edges. No data channel is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from apache_beam.coders import coders
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import BeamTransformFactory
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from beam_runner_model.stages import HarnessStage, InputEdge, OutputEdge, OutputKind
from beam_runner_urns import transforms as urns
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.writers import find_writer

from beam_runner_embedded._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_embedded.keyed_sink import KeyedSink
from beam_runner_embedded.sinks import ElementSink, Sink
from beam_runner_embedded.source import ChunkSource
from beam_runner_embedded.window_sink import WindowSink

_EMBEDDED_SOURCE = "beam_runner_worker:embedded:source:v1"
_EMBEDDED_SINK = "beam_runner_worker:embedded:sink:v1"


@attrs.frozen
class StageEdges:
    """Input edge and output edges of a stage. Beam passes this object to the factories of this module
    in place of a data channel factory.
    """

    input: InputEdge
    outputs: Mapping[str, OutputEdge]

    @classmethod
    def from_stage(cls, spec: HarnessStage) -> StageEdges:
        """Returns the edges of a stage's specification."""
        return cls(spec.input, {edge.transform_id: edge for edge in spec.outputs})


def parse_descriptor(spec: HarnessStage) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    """Returns the stage's descriptor, in which the input and the outputs have the URNs of this
    package's operations.

    Raises:
        HarnessError: The sources and sinks of the descriptor differ from the stage's edges.
    """
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    sources, sinks = set(), set()
    for transform_id, transform in descriptor.transforms.items():
        if transform.spec.urn == urns.DATA_SOURCE:
            transform.spec.urn = _EMBEDDED_SOURCE
            sources.add(transform_id)
        elif transform.spec.urn == urns.DATA_SINK:
            transform.spec.urn = _EMBEDDED_SINK
            sinks.add(transform_id)
    named_sinks = {edge.transform_id for edge in spec.outputs}
    if sources != {spec.input.transform_id} or sinks != named_sinks:
        raise HarnessError(
            f"Stage {spec.title}: the descriptor reads {sorted(sources)} and writes "
            f"{sorted(sinks)}, but the stage has the input {spec.input.transform_id} and the outputs"
            f" {sorted(named_sinks)}"
        )
    return descriptor


def _get_windowed_coder(factory: BeamTransformFactory, coder_id: str) -> coders.WindowedValueCoder:
    coder = factory.get_coder(coder_id)
    if not isinstance(coder, coders.WindowedValueCoder):
        raise HarnessError(f"The coder {coder_id} of an edge is not a windowed coder: {coder}")
    return coder


@BeamTransformFactory.register_urn(_EMBEDDED_SOURCE, beam_fn_api_pb2.RemoteGrpcPort)
def _create_source(
    factory: BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    port: beam_fn_api_pb2.RemoteGrpcPort,
    consumers: dict[str, list[operations.Operation]],
) -> ChunkSource:
    edges: Any = factory.data_channel_factory
    host: Any = factory.state_handler
    return ChunkSource(
        common.NameContext(transform.unique_name, transform_id),
        factory.counter_factory,
        factory.state_sampler,
        _get_windowed_coder(factory, port.coder_id),
        edges.input,
        [consumer for of_tag in consumers.values() for consumer in of_tag],
        host.errors,
    )


@BeamTransformFactory.register_urn(_EMBEDDED_SINK, beam_fn_api_pb2.RemoteGrpcPort)
def _create_sink(
    factory: BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    port: beam_fn_api_pb2.RemoteGrpcPort,
    consumers: dict[str, list[operations.Operation]],
) -> Sink:
    edges: Any = factory.data_channel_factory
    sink = create_sink(
        common.NameContext(transform.unique_name, transform_id),
        factory.counter_factory,
        factory.state_sampler,
        _get_windowed_coder(factory, port.coder_id),
        edges.outputs[transform_id],
    )
    sink.writer = find_writer(factory.descriptor, transform_id)
    return sink


def create_sink(
    name_context: common.NameContext,
    counter_factory: CounterFactory,
    state_sampler: StateSampler,
    windowed_coder: coders.WindowedValueCoder,
    edge: OutputEdge,
) -> Sink:
    """Returns a sink that writes the kind of chunks that an output edge requires."""
    arguments = (name_context, counter_factory, state_sampler, windowed_coder)
    if edge.kind is OutputKind.KEYED:
        return KeyedSink(*arguments, edge=edge)
    sink = WindowSink if edge.windows else ElementSink
    return sink(*arguments, min_timestamp=edge.min_timestamp)
