"""Tests that readers get the elements of a TestStream with the SDK's values and timestamps, in the global window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam import coders
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import LengthPrefixCoder
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.testing import test_stream
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfoTiming
from beam_runner_model.buffers import BufferKind
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP

from beam_runner_planner import _protos
from beam_runner_planner.plan import (
    JobPlan,
    ScriptedClock,
    ScriptedElements,
    ScriptedWatermark,
    StagePlan,
)
from beam_runner_planner.translate import plan_job

both_ways = pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)


def reader_of(plan: JobPlan, buffer_id: str) -> StagePlan:
    (reader,) = (s for s in plan.stages.values() if s.input_buffer == buffer_id)
    return reader


def edge_coder(stage: StagePlan) -> Any:
    """Returns Beam's coder of the windowed values that a stage reads."""
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    source = descriptor.transforms[stage.spec.input.transform_id]
    port = _protos.RemoteGrpcPort.FromString(source.spec.payload)
    return PipelineContext(descriptor).coders.get_by_id(port.coder_id).get_impl()


def decoded(plan: JobPlan, step: ScriptedElements) -> list[Any]:
    """Returns the windowed values of a step as its reader decodes them."""
    coder = edge_coder(reader_of(plan, step.buffer_id))
    stream = create_InputStream(step.data)
    values = [coder.decode_from_stream(stream, True) for _ in range(step.count)]
    assert stream.size() == 0
    return values


def script(plan: JobPlan) -> tuple[ScriptedElements | ScriptedWatermark | ScriptedClock, ...]:
    (stream,) = plan.test_streams
    return stream.steps


@both_ways
@pytest.mark.parametrize(
    ("coder", "elements"),
    [
        (coders.FastPrimitivesCoder(), [1, "two", None, ("k", [3])]),
        (coders.StrUtf8Coder(), ["", "a", "long" * 100]),
        (coders.BytesCoder(), [b"", b"\x00\x01"]),
        (coders.VarIntCoder(), [-1, 0, 2**40]),
        (LengthPrefixCoder(coders.BytesCoder()), [b"", b"abc"]),
        (coders.TupleCoder((coders.StrUtf8Coder(), coders.BytesCoder())), [("k", b"v"), ("", b"")]),
        (coders.PickleCoder(), [{"a": 1}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_test_stream_elements_with_any_coder_are_decoded(
    coder: Any, elements: list[Any], flags: tuple[str, ...]
) -> None:
    stamped = [TimestampedValue(e, 10 - i) for i, e in enumerate(elements)]
    plan = samples.plan_of(
        lambda p: (
            p | test_stream.TestStream(coder=coder).add_elements(stamped) | beam.Map(lambda x: x)
        ),
        *flags,
    )
    (step,) = script(plan)
    assert isinstance(step, ScriptedElements)
    assert step.min_timestamp == 1000 * (11 - len(elements))
    values = decoded(plan, step)
    assert [value.value for value in values] == elements
    assert [value.timestamp for value in values] == [s.timestamp for s in stamped]
    for value in values:
        assert value.windows == (GlobalWindow(),)
        assert value.pane_info.timing == PaneInfoTiming.UNKNOWN


def test_test_stream_elements_of_go_are_separate_events_with_scripted_clock() -> None:
    """Go's tests expect one pane per element. Python's tests expect one pane for all elements of an event."""
    proto = samples.proto_of(
        lambda p: p | test_stream.TestStream().add_elements(["a", "b"]) | beam.Map(lambda x: x)
    )
    for environment in proto.components.environments.values():
        environment.capabilities.append("beam:version:sdk_base:go:apache/beam_go_sdk:2.77.0")
    plan = plan_job(samples.job_of(proto))
    still, *rest = script(plan)
    assert still == ScriptedClock(0) and plan.sets_clock
    steps = [step for step in rest if isinstance(step, ScriptedElements)]
    assert [[v.value for v in decoded(plan, step)] for step in steps] == [["a"], ["b"]]


@pytest.mark.parametrize("version", ["2.64.0", "2.77.0"])
def test_test_stream_elements_have_length_prefix_for_newer_sdks(version: str) -> None:
    numbers = test_stream.TestStream(coders.VarIntCoder()).add_elements([1, 300])
    proto = samples.proto_of(lambda p: p | numbers | beam.Map(lambda x: x))
    for environment in proto.components.environments.values():
        environment.capabilities.append(f"beam:version:sdk_base:go:apache/beam_go_sdk:{version}")
    plan = plan_job(samples.job_of(proto))
    steps = [step for step in script(plan) if isinstance(step, ScriptedElements)]
    assert [[v.value for v in decoded(plan, step)] for step in steps] == [[1], [300]]
    lengths = b"" if version == "2.64.0" else b"\x01"
    assert steps[0].data.endswith(lengths + b"\x01") and len(steps[0].data) == 14 + len(lengths)


def test_test_stream_elements_at_minimum_timestamp_are_planned() -> None:
    plan = samples.plan_of(samples.scripted_groups)
    (step,) = script(plan)
    assert isinstance(step, ScriptedElements) and step.min_timestamp == MIN_TIMESTAMP


def test_test_stream_steps_of_two_outputs_are_planned() -> None:
    plan = samples.plan_of(samples.two_outputs)
    (stream,) = plan.test_streams
    assert len(stream.buffers) == 2 and stream.name == "TestStream"
    first, second, third, fourth, fifth = stream.steps
    assert isinstance(first, ScriptedElements) and isinstance(third, ScriptedElements)
    main, side = first.buffer_id, third.buffer_id
    assert {main, side} == set(stream.buffers)
    assert second == ScriptedWatermark(side, 10_000)
    assert fourth == ScriptedClock(1000)
    assert fifth == ScriptedWatermark(main, 20_000)
    assert [v.value for v in decoded(plan, first)] == ["m"]
    assert [v.value for v in decoded(plan, third)] == ["s"]


def test_test_stream_outputs_without_reader_are_removed() -> None:
    plan = samples.plan_of(samples.an_output_nobody_reads)
    (stream,) = plan.test_streams
    (buffer,) = stream.buffers
    assert [type(step) for step in stream.steps] == [ScriptedElements]
    assert set(plan.buffers) == {buffer}


def test_test_stream_without_reader_still_advances_clock() -> None:
    plan = samples.plan_of(samples.a_script_nobody_reads)
    (stream,) = plan.test_streams
    assert stream.buffers == () and stream.steps == (ScriptedClock(3000),)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (samples.scripted_groups, BufferKind.GROUPED),
        (samples.scripted_reshuffle, BufferKind.DEALT),
        (samples.scripted_side_input, BufferKind.SIDE_ITERABLE),
    ],
)
@both_ways
def test_test_stream_before_grouping_or_reshuffle_gets_stage_that_writes_it(
    build: samples.Build, kind: BufferKind, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    (buffer,) = (buffer_id for stream in plan.test_streams for buffer_id in stream.buffers)
    reader = reader_of(plan, buffer)
    assert {plan.buffers[b].kind for b in reader.outputs.values()} == {kind}


def test_test_stream_read_by_several_stages_has_one_reader() -> None:
    plan = samples.plan_of(samples.scripted_twice_read)
    (step,) = script(plan)
    assert isinstance(step, ScriptedElements)
    outputs = reader_of(plan, step.buffer_id).outputs.values()
    assert BufferKind.SIDE_ITERABLE in {plan.buffers[b].kind for b in outputs}


def as_sent_by_another_sdk(
    change: Callable[[_protos.TestStreamPayload, _protos.PTransform, _protos.Pipeline], None],
) -> JobPlan:
    """Returns the plan of a TestStream pipeline after its proto was changed to the form of another SDK."""
    proto = samples.proto_of(samples.scripted, *samples.EXTERNAL)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:teststream:v1":
            payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
            change(payload, transform, proto)
            transform.spec.payload = payload.SerializeToString()
    return plan_job(samples.job_of(proto))


def _untag(payload: _protos.TestStreamPayload, transform: _protos.PTransform, name: str) -> None:
    output = transform.outputs.pop("None")
    transform.outputs[name] = output
    transform.ClearField("environment_id")
    for event in payload.events:
        kind = event.WhichOneof("event")
        if kind != "processing_time_event":
            getattr(event, kind).tag = ""


def test_test_stream_of_java_has_empty_tags_and_no_environment() -> None:
    def change(
        payload: _protos.TestStreamPayload, transform: _protos.PTransform, _: _protos.Pipeline
    ) -> None:
        _untag(payload, transform, "output")

    steps = script(as_sent_by_another_sdk(change))
    assert [type(step) for step in steps] == [
        ScriptedWatermark,
        ScriptedElements,
        ScriptedClock,
        ScriptedWatermark,
    ]


def test_test_stream_custom_coders_of_go_include_length() -> None:
    def change(
        payload: _protos.TestStreamPayload, transform: _protos.PTransform, proto: _protos.Pipeline
    ) -> None:
        _untag(payload, transform, "i0")
        proto.components.coders["c0"].spec.urn = "beam:go:coder:custom:v1"
        payload.coder_id = "c0"
        del payload.events[1].element_event.elements[1:]
        payload.events[1].element_event.elements[0].encoded_element = b"\x03abc"

    plan = as_sent_by_another_sdk(change)
    step = next(step for step in script(plan) if isinstance(step, ScriptedElements))
    assert step.count == 1 and step.data.endswith(b"\x0f\x03abc")


def test_test_stream_events_without_elements_are_removed() -> None:
    def change(
        payload: _protos.TestStreamPayload, _: _protos.PTransform, __: _protos.Pipeline
    ) -> None:
        del payload.events[1].element_event.elements[:]

    steps = script(as_sent_by_another_sdk(change))
    assert [type(step) for step in steps] == [ScriptedWatermark, ScriptedClock, ScriptedWatermark]


def test_test_stream_timestamps_after_end_are_clamped_to_end() -> None:
    def change(
        payload: _protos.TestStreamPayload, _: _protos.PTransform, __: _protos.Pipeline
    ) -> None:
        payload.events[2].processing_time_event.advance_duration = 2**63 - 1
        payload.events[3].watermark_event.new_watermark = 2**63 - 1

    *_, clock, watermark = script(as_sent_by_another_sdk(change))
    assert clock == ScriptedClock(MAX_TIMESTAMP)
    assert isinstance(watermark, ScriptedWatermark) and watermark.watermark == MAX_TIMESTAMP
