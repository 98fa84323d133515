"""Thread stacks of Python SDK harnesses that have no status stream. The runner requests the stacks
with a special bundle.

Harnesses in the client's program (LOOPBACK) and in worker pools never get the status endpoint. But
they run bundles concurrently, so they can run a special bundle while a user's bundle blocks. The
stage of the special bundle has one function. The function dumps the stacks with Beam's code and
returns them in a metric, which the response contains. The user's code isn't affected.
"""

from __future__ import annotations

import functools

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import Create
from apache_beam.utils.python_callable import PythonCallableWithSource
from beam_runner_urns import transforms as urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2, endpoints_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection

_ID = "beam-runner-thread-dump"
_MARK = b"--- Thread #"
# Send the function that dumps the stacks as source text, because bytecode works only in one version
# of Python. SDKs without this metric return nothing.
_SOURCE = """
def tell(_):
    from apache_beam.metrics import Metrics
    from apache_beam.runners.worker import worker_status

    told = getattr(Metrics, "string_set", None)
    if told is not None:
        told("beam_runner", "threads").add(worker_status.thread_dump())
    return None
"""


def request_thread_dump(connection: SdkConnection, endpoint: str, limit: float) -> str:
    """Requests and returns the stacks of all threads of a Python SDK harness, in Beam's format; empty
    if the harness returns none.

    Args:
        endpoint: address of the state service. The stage uses no state, but an SDK opens a state
            stream for each stage.
        limit: the time limit in seconds.
    """
    connection.register_descriptor(create_descriptor(endpoint))
    request = beam_fn_api_pb2.InstructionRequest(
        process_bundle=beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=_ID)
    )
    try:
        answer = connection.send_and_wait(request, limit).process_bundle
    except HarnessError:
        return ""
    payloads = (*answer.monitoring_data.values(), *(one.payload for one in answer.monitoring_infos))
    told = next((payload for payload in payloads if _MARK in payload), b"")
    # Skip the header of the payload: the metric is a set of texts, so the number of texts and the
    # length of the text come first.
    return told[told.find(b"==") :].decode("utf-8", "replace") if told else ""


@functools.cache
def create_descriptor(endpoint: str) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    """Returns the descriptor of a stage with a source of one element and the function that dumps the stacks."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Impulse() | "Tell" >> beam.Map(PythonCallableWithSource(_SOURCE))
    proto, context = pipeline.to_runner_api(return_context=True)
    parts = proto.components
    (tell,) = (key for key, one in parts.transforms.items() if one.spec.urn == urns.PAR_DO)
    (begun,) = parts.transforms[tell].inputs.values()
    source = Create._create_source_from_iterable([b""], beam.coders.BytesCoder())
    read = beam_runner_api_pb2.ReadPayload(source=source.to_runner_api(context))
    begin = beam_runner_api_pb2.PTransform(unique_name="Begin", outputs={"out": begun})
    begin.spec.urn, begin.spec.payload = urns.READ, read.SerializeToString()
    return beam_fn_api_pb2.ProcessBundleDescriptor(
        id=_ID,
        transforms={"begin": begin, tell: parts.transforms[tell]},
        pcollections=parts.pcollections,
        windowing_strategies=parts.windowing_strategies,
        coders=parts.coders,
        environments=parts.environments,
        state_api_service_descriptor=endpoints_pb2.ApiServiceDescriptor(url=endpoint),
    )
