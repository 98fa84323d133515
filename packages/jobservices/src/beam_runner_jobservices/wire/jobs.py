"""Conversion between protobuf messages of the Job API and records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import (
    Importance,
    JobInfo,
    JobMessage,
    JobMetrics,
    JobState,
    MetricCell,
    OptionType,
    PipelineOption,
    StateEvent,
)

from beam_runner_jobservices._protos import (
    DecodeError,
    Struct,
    Timestamp,
    beam_job_api_pb2,
    beam_runner_api_pb2,
    endpoints_pb2,
    json_format,
    metrics_pb2,
)
from beam_runner_jobservices.history import Entry

# The protobuf messages of jobs and metrics have the same field names as the records of this package.
run_message = beam_job_api_pb2.RunJobRequest
ran_message = beam_job_api_pb2.RunJobResponse
jobs_message = beam_job_api_pb2.GetJobsRequest
state_request = beam_job_api_pb2.GetJobStateRequest
messages_request = beam_job_api_pb2.JobMessagesRequest
pipeline_request = beam_job_api_pb2.GetJobPipelineRequest
cancel_request = beam_job_api_pb2.CancelJobRequest
drain_request = beam_job_api_pb2.DrainJobRequest
metrics_request = beam_job_api_pb2.GetJobMetricsRequest
describe_request = beam_job_api_pb2.DescribePipelineOptionsRequest


@attrs.frozen
class PreparedJob:
    """The answer to Prepare: the endpoint and token for staging artifacts, and the id for Run."""

    preparation_id: str
    staging_endpoint: str
    staging_token: str = attrs.field(repr=False)


def encode_prepare_request(job_name: str, pipeline: bytes, options: Mapping[str, Any]) -> Any:
    return beam_job_api_pb2.PrepareJobRequest(
        job_name=job_name,
        pipeline=beam_runner_api_pb2.Pipeline.FromString(pipeline),
        pipeline_options=encode_struct(options),
    )


def encode_prepared_job(prepared: PreparedJob) -> Any:
    return beam_job_api_pb2.PrepareJobResponse(
        preparation_id=prepared.preparation_id,
        artifact_staging_endpoint=endpoints_pb2.ApiServiceDescriptor(url=prepared.staging_endpoint),
        staging_session_token=prepared.staging_token,
    )


def decode_prepared_job(message: Any) -> PreparedJob:
    return PreparedJob(
        message.preparation_id,
        message.artifact_staging_endpoint.url,
        message.staging_session_token,
    )


def replace_staging_endpoint(prepared: bytes, endpoint: str) -> bytes:
    """Returns a serialized `PrepareJobResponse` with another address for artifacts.

    Raises:
        DecodeError: the bytes are not a `PrepareJobResponse`.
    """
    message = beam_job_api_pb2.PrepareJobResponse.FromString(prepared)
    message.artifact_staging_endpoint.url = endpoint
    return bytes(message.SerializeToString())


def encode_job_infos(infos: Iterable[JobInfo]) -> Any:
    return beam_job_api_pb2.GetJobsResponse(
        job_info=[
            beam_job_api_pb2.JobInfo(
                job_id=info.job_id,
                job_name=info.job_name,
                pipeline_options=encode_struct(info.options),
                state=info.state.value,
            )
            for info in infos
        ]
    )


def decode_job_infos(message: Any) -> tuple[JobInfo, ...]:
    return tuple(
        JobInfo(
            info.job_id, info.job_name, JobState(info.state), decode_struct(info.pipeline_options)
        )
        for info in message.job_info
    )


def encode_state_event(event: StateEvent) -> Any:
    timestamp = Timestamp()
    timestamp.FromNanoseconds(round(event.time * 1e6) * 1000)
    return beam_job_api_pb2.JobStateEvent(state=event.state.value, timestamp=timestamp)


def decode_state_event(message: Any) -> StateEvent:
    return StateEvent(JobState(message.state), message.timestamp.ToNanoseconds() / 1e9)


def encode_entry(entry: Entry) -> Any:
    if isinstance(entry, StateEvent):
        return beam_job_api_pb2.JobMessagesResponse(state_response=encode_state_event(entry))
    return beam_job_api_pb2.JobMessagesResponse(
        message_response=beam_job_api_pb2.JobMessage(
            message_id=entry.message_id,
            time=entry.time,
            importance=entry.importance.value,
            message_text=entry.text,
        )
    )


def decode_entry(message: Any) -> Entry:
    if message.HasField("state_response"):
        return decode_state_event(message.state_response)
    response = message.message_response
    return JobMessage(
        response.message_id,
        response.time,
        Importance(response.importance),
        response.message_text,
    )


def encode_pipeline(pipeline: bytes) -> Any:
    return beam_job_api_pb2.GetJobPipelineResponse(
        pipeline=beam_runner_api_pb2.Pipeline.FromString(pipeline)
    )


def encode_cancel_response(state: JobState) -> Any:
    return beam_job_api_pb2.CancelJobResponse(state=state.value)


def encode_drain_response(state: JobState) -> Any:
    return beam_job_api_pb2.DrainJobResponse(state=state.value)


def encode_metrics(metrics: JobMetrics) -> Any:
    return beam_job_api_pb2.GetJobMetricsResponse(
        metrics=beam_job_api_pb2.MetricResults(
            attempted=[_encode_metric(info) for info in metrics.attempted],
            committed=[_encode_metric(info) for info in metrics.committed],
        )
    )


def serialize_metrics(metrics: JobMetrics) -> bytes:
    return bytes(encode_metrics(metrics).SerializeToString())


def deserialize_metrics(data: bytes) -> JobMetrics:
    """Returns the metrics that `serialize_metrics` encoded.

    Raises:
        ValueError: `data` is not a result of `serialize_metrics`.
    """
    try:
        return decode_metrics(beam_job_api_pb2.GetJobMetricsResponse.FromString(data))
    except DecodeError as error:
        raise ValueError("Can't parse the metrics") from error


def decode_metrics(message: Any) -> JobMetrics:
    return JobMetrics(
        tuple(_decode_metric(info) for info in message.metrics.attempted),
        tuple(_decode_metric(info) for info in message.metrics.committed),
    )


def _encode_metric(info: MetricCell) -> Any:
    return metrics_pb2.MonitoringInfo(
        urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels)
    )


def _decode_metric(message: Any) -> MetricCell:
    return MetricCell(message.urn, message.type, message.payload, dict(message.labels))


def encode_options(described: Iterable[PipelineOption]) -> Any:
    return beam_job_api_pb2.DescribePipelineOptionsResponse(
        options=[
            beam_job_api_pb2.PipelineOptionDescriptor(
                name=option.name,
                type=option.type.value,
                description=option.description,
                default_value=option.default,
                group=option.group,
            )
            for option in described
        ]
    )


def decode_options(message: Any) -> tuple[PipelineOption, ...]:
    return tuple(
        PipelineOption(
            option.name,
            OptionType(option.type),
            option.description,
            option.default_value,
            option.group,
        )
        for option in message.options
    )


def encode_struct(values: Mapping[str, Any]) -> Any:
    return json_format.ParseDict(dict(values), Struct())


def decode_struct(message: Any) -> dict[str, Any]:
    """Returns a `Struct` as a mapping; whole numbers become ints."""
    decoded: dict[str, Any] = json.loads(json_format.MessageToJson(message))
    return decoded
