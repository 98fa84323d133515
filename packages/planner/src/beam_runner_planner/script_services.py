"""Requests to the services of TestStreams, which the server sends when a job is submitted.

Source: ``TestStreamService`` in ``beam_interactive_api.proto``. The service sends times in
microseconds. The payload of a TestStream has other units (``direct.test_stream_impl`` in Beam's
Python SDK).
"""

from __future__ import annotations

import grpc
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.leaf_transforms import list_leaf_transforms

_SECONDS = 30.0
_MOST_BYTES = 64 << 20


def fetch_test_stream_events(pipeline: _protos.Pipeline) -> None:
    """Replaces the event service of each TestStream by all events that the service sends.

    Raises:
        UnsupportedPipeline: a service can't be reached, or didn't send all events within 30 s.
    """
    for _, transform in list_leaf_transforms(pipeline.root_transform_ids, pipeline.components):
        if transform.spec.urn != transform_urns.TEST_STREAM:
            continue
        payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
        if payload.endpoint.url:
            payload.events.extend(_fetch_events_of_test_stream(transform, payload.endpoint.url))
            payload.ClearField("endpoint")
            transform.spec.payload = payload.SerializeToString(deterministic=True)


def _fetch_events_of_test_stream(
    transform: _protos.PTransform, url: str
) -> list[_protos.TestStreamPayload.Event]:
    request = _protos.EventsRequest(output_ids=sorted(transform.outputs))
    options = [("grpc.max_receive_message_length", _MOST_BYTES)]
    with grpc.insecure_channel(url, options=options) as channel:
        try:
            told = _protos.TestStreamServiceStub(channel).Events(request, timeout=_SECONDS)
            events, size = [], 0
            for event in told:
                size += event.ByteSize()
                if size > _MOST_BYTES:
                    told.cancel()
                    raise UnsupportedPipeline(
                        [
                            f"a TestStream whose service at {url!r} sends more than"
                            f" {_MOST_BYTES} bytes of events (in"
                            f" '{transform.unique_name}')"
                        ]
                    )
                events.append(_convert_to_milliseconds(event))
            return events
        except grpc.RpcError as error:
            raise UnsupportedPipeline(
                [
                    f"a TestStream whose service at {url!r} failed before it sent all"
                    f" events: {error.code().name}, {error.details() or 'no details'}"
                    f" (in '{transform.unique_name}')"
                ]
            ) from error


def _convert_to_milliseconds(
    event: _protos.TestStreamPayload.Event,
) -> _protos.TestStreamPayload.Event:
    match event.WhichOneof("event"):
        case "element_event":
            for element in event.element_event.elements:
                element.timestamp //= 1000
        case "watermark_event":
            event.watermark_event.new_watermark //= 1000
        case "processing_time_event":
            event.processing_time_event.advance_duration //= 1000
    return event
