"""TestStreams: conversion of the payload's events to steps, with elements that stages can read.

An element has the bytes that its coder writes at the top level. Every SDK puts the same bytes
behind a length prefix. So readers use the payload's coder with a length prefix, and ignore the
PCollection's coder: Python gives the PCollection a coder that doesn't fit. Only custom coders of Go
include the length.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from beam_runner_model.panes import NO_FIRING, encode_pane
from beam_runner_model.times import MAX_TIMESTAMP, clamp_timestamp
from beam_runner_model.varints import encode_varint
from beam_runner_model.window_coders import encode_instant, encode_window
from beam_runner_model.windowed_values import encode_windows_and_pane
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import (
    ScriptedClock,
    ScriptedElements,
    ScriptedWatermark,
    TestStreamPlan,
)
from beam_runner_planner.sdks import create_length_prefix_predicate, is_go_sdk

KIND = "script"
"""The kind of a TestStream's buffers, and the first part of their names."""

_GO_CUSTOM_CODER = "beam:go:coder:custom:v1"
_GLOBAL_WINDOW_AND_PANE = encode_windows_and_pane(
    encode_window(GLOBAL_WINDOW), encode_pane(NO_FIRING)
)


def get_test_stream_buffer_id(pcollection_id: str) -> str:
    """Returns the id of the buffer that holds an output of a TestStream."""
    return f"{KIND}:{pcollection_id}"


def find_unsupported_test_stream_features(
    transform: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    """Yields the features of a TestStream that the runner can't run."""
    payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
    if payload.coder_id not in components.coders:
        yield (f"a TestStream whose coder {payload.coder_id!r} is missing from the pipeline")
    for pcollection_id in transform.outputs.values():
        strategy_id = components.pcollections[pcollection_id].windowing_strategy_id
        window_coder_id = components.windowing_strategies[strategy_id].window_coder_id
        if components.coders[window_coder_id].spec.urn != coder_urns.GLOBAL_WINDOW:
            yield "a TestStream outside of the global window"
    for tag in sorted(_list_event_tags(payload)):
        if _get_output_of_tag(transform, tag) is None:
            yield f"a TestStream with events for the unknown output {tag!r}"
    if any(event.processing_time_event.advance_duration < 0 for event in payload.events):
        yield "a TestStream that moves processing time back"
    if _moves_watermark_back(payload):
        yield "a TestStream that moves its watermark back"


def plan_test_stream(
    transform: _protos.PTransform, components: _protos.Components, read: Container[str]
) -> TestStreamPlan:
    """Returns the events of a TestStream as steps, for the outputs that some stage reads.

    All times are in milliseconds. The result omits events without elements, and events for outputs
    that no stage reads.

    For the Python SDK, the elements of one event arrive together; for the Go SDK, they arrive one
    by one. The Beam model permits both, and the tests of each SDK expect the behavior of that SDK.
    For the Go SDK, the TestStream is the only source of processing time, even if no event advances
    the time.
    """
    payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
    has_length = has_required_length_prefixes(payload, components)
    is_go = any(map(is_go_sdk, components.environments.values()))
    buffers = sorted(get_test_stream_buffer_id(p) for p in set(transform.outputs.values()))
    return TestStreamPlan(
        name=transform.unique_name,
        buffers=tuple(b for b in buffers if b in read),
        steps=tuple(
            step
            for event in (_split_events_for_go(payload.events) if is_go else payload.events)
            if (step := _convert_test_stream_event(transform, event, has_length)) is not None
            and (isinstance(step, ScriptedClock) or step.buffer_id in read)
        ),
    )


def has_required_length_prefixes(
    payload: _protos.TestStreamPayload, components: _protos.Components
) -> bool:
    """Returns whether the elements of a TestStream have length prefixes, or need none.

    The check is needed because some readers of the elements ignore length prefixes.
    """
    coder = components.coders[payload.coder_id]
    has_prefix = coder.spec.urn in (_GO_CUSTOM_CODER, coder_urns.LENGTH_PREFIX)
    return has_prefix or not create_length_prefix_predicate(components)(coder)


def _split_events_for_go(
    events: Iterable[_protos.TestStreamPayload.Event],
) -> Iterator[_protos.TestStreamPayload.Event]:
    """Returns the events with one element each. The time advances only if an event of the
    TestStream advances it.
    """
    still = _protos.TestStreamPayload.Event()
    still.processing_time_event.advance_duration = 0
    yield still
    for event in events:
        if event.WhichOneof("event") != "element_event":
            yield event
            continue
        for element in event.element_event.elements:
            one = _protos.TestStreamPayload.Event()
            one.element_event.tag = event.element_event.tag
            one.element_event.elements.append(element)
            yield one


def _convert_test_stream_event(
    transform: _protos.PTransform, event: _protos.TestStreamPayload.Event, has_length: bool
) -> ScriptedElements | ScriptedWatermark | ScriptedClock | None:
    match event.WhichOneof("event"):
        case "watermark_event":
            watermark = clamp_timestamp(event.watermark_event.new_watermark)
            return ScriptedWatermark(
                _get_buffer_id_of_tag(transform, event.watermark_event.tag), watermark
            )
        case "processing_time_event":
            return ScriptedClock(min(event.processing_time_event.advance_duration, MAX_TIMESTAMP))
        case "element_event" if event.element_event.elements:
            elements = event.element_event.elements
            return ScriptedElements(
                _get_buffer_id_of_tag(transform, event.element_event.tag),
                count=len(elements),
                data=b"".join(_encode_windowed_values(elements, has_length)),
                min_timestamp=min(clamp_timestamp(element.timestamp) for element in elements),
            )
        case _:
            return None


def _encode_windowed_values(
    elements: Iterable[_protos.TestStreamPayload.TimestampedElement], has_length: bool
) -> Iterator[bytes]:
    for element in elements:
        yield encode_instant(clamp_timestamp(element.timestamp))
        yield _GLOBAL_WINDOW_AND_PANE
        if not has_length:
            yield encode_varint(len(element.encoded_element))
        yield element.encoded_element


def _get_buffer_id_of_tag(transform: _protos.PTransform, tag: str) -> str:
    pcollection_id = _get_output_of_tag(transform, tag)
    if pcollection_id is None:
        raise ValueError(f"{transform.unique_name!r} has no output {tag!r}")
    return get_test_stream_buffer_id(pcollection_id)


def _get_output_of_tag(transform: _protos.PTransform, tag: str) -> str | None:
    """Returns the output for a tag. Go and Java leave the tag empty, because they have only one output."""
    if tag not in transform.outputs and len(transform.outputs) == 1:
        return next(iter(transform.outputs.values()))
    return transform.outputs.get(tag)


def _list_event_tags(payload: _protos.TestStreamPayload) -> set[str]:
    return {
        getattr(event, event.WhichOneof("event")).tag
        for event in payload.events
        if event.WhichOneof("event") in ("watermark_event", "element_event")
    }


def _moves_watermark_back(payload: _protos.TestStreamPayload) -> bool:
    reached: dict[str, int] = {}
    for event in payload.events:
        if event.WhichOneof("event") == "watermark_event":
            told = event.watermark_event
            if told.new_watermark < reached.get(told.tag, told.new_watermark):
                return True
            reached[told.tag] = told.new_watermark
    return False
