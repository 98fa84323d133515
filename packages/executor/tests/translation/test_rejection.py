"""What is not supported is refused, each feature by its name with the transform that brings it in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, NonMergingWindowFn, WindowFn

from beam_spark_executor import _protos
from beam_spark_executor.translation.errors import UnsupportedPipeline
from beam_spark_executor.translation.translate import translate


class Stateful(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(
        self,
        element: Any,
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008
    ) -> Iterator[Any]:
        yield element


class Timed(beam.DoFn):
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
    ) -> Iterator[Any]:
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> Iterator[Any]:
        yield 1


class Finalizing(beam.DoFn):
    def process(self, element: Any, f: Any = beam.DoFn.BundleFinalizerParam) -> Iterator[Any]:
        yield element


def pairs(p: beam.Pipeline) -> beam.PCollection:
    return p | "Pairs" >> beam.Create([("k", 1)])


def pardo(fn: beam.DoFn) -> samples.Build:
    return lambda p: pairs(p) | "Here" >> beam.ParDo(fn)


def windowed(**arguments: Any) -> samples.Build:
    return lambda p: (
        pairs(p)
        | beam.WindowInto(
            FixedWindows(10),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            **arguments,
        )
        | "Here" >> beam.GroupByKey()
    )


class _OwnCoder(NonMergingWindowFn):
    def assign(self, assign_context: Any) -> list[Any]:
        return []

    def get_window_coder(self) -> Any:
        return StrUtf8Coder()


class _OwnMerging(WindowFn):
    def assign(self, assign_context: Any) -> list[Any]:
        return []

    def merge(self, merge_context: Any) -> None:
        return None

    def get_window_coder(self) -> Any:
        return beam.coders.coders.IntervalWindowCoder()


def own_windows(window_fn: WindowFn) -> samples.Build:
    return lambda p: pairs(p) | beam.WindowInto(window_fn) | "Here" >> beam.GroupByKey()


REJECTED: dict[str, tuple[samples.Build, str]] = {
    "state": (pardo(Stateful()), r"state \(count\) \(in 'Here"),
    "timers": (pardo(Timed()), r"timers \(.*alarm.*\) \(in 'Here"),
    "finalization": (pardo(Finalizing()), r"bundle finalization \(in 'Here"),
    "test stream": (
        lambda p: p | "Here" >> test_stream.TestStream().add_elements([1]),
        r"TestStream \(in 'Here",
    ),
    "unbounded": (
        lambda p: p | "Here" >> PeriodicImpulse(fire_interval=1),
        r"unbounded PCollections \(in 'Here",
    ),
    "repeated trigger": (
        windowed(trigger=trigger.Repeatedly(trigger.AfterCount(1))),
        r"the trigger 'repeat' before a grouping \(in 'Here",
    ),
    "early firings": (
        windowed(trigger=trigger.AfterWatermark(early=trigger.AfterCount(1))),
        r"the trigger 'after_end_of_window'",
    ),
    "own window coder": (own_windows(_OwnCoder()), r"grouping by windows with the coder .*'Here"),
    "own merging windows": (own_windows(_OwnMerging()), r"custom merging windows .*'Here"),
}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
def test_by_name(name: str, flags: tuple[str, ...]) -> None:
    build, reason = REJECTED[name]
    with pytest.raises(UnsupportedPipeline) as raised:
        samples.plan_of(build, *flags)
    assert re.search(reason, str(raised.value)), str(raised.value)


def with_payload(change: Callable[[_protos.ParDoPayload], None]) -> _protos.Pipeline:
    """A pipeline with a ParDo that asks for something which Python can't express."""
    proto = samples.proto_of(lambda p: pairs(p) | "Here" >> beam.ParDo(beam.DoFn()))
    for transform in proto.components.transforms.values():
        if transform.unique_name == "Here" and transform.spec.payload:
            payload = _protos.ParDoPayload.FromString(transform.spec.payload)
            change(payload)
            transform.spec.payload = payload.SerializeToString()
    return proto


@pytest.mark.parametrize(
    ("field", "value", "feature"),
    [
        ("requires_stable_input", True, "stable input"),
        ("requires_time_sorted_input", True, "time-sorted input"),
        ("on_window_expiration_timer_family_spec", "x", "on-window-expiration callbacks"),
    ],
)
def test_what_other_sdks_ask_for(field: str, value: Any, feature: str) -> None:
    proto = with_payload(lambda payload: setattr(payload, field, value))
    with pytest.raises(UnsupportedPipeline, match=rf"{feature} \(in 'Here'\)"):
        translate(samples.job_of(proto))


def test_side_inputs_of_another_pattern() -> None:
    def change(payload: _protos.ParDoPayload) -> None:
        payload.side_inputs["side"].access_pattern.urn = "beam:side_input:odd:v1"

    with pytest.raises(
        UnsupportedPipeline, match=r"'beam:side_input:odd:v1' of 'side' \(in 'Here'"
    ):
        translate(samples.job_of(with_payload(change)))


def test_transforms_without_an_environment() -> None:
    proto = samples.proto_of(samples.group)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:group_by_key:v1":
            transform.spec.urn = "beam:transform:odd:v1"
    with pytest.raises(UnsupportedPipeline, match=r"'beam:transform:odd:v1' \(in 'GroupByKey'\)"):
        translate(samples.job_of(proto))


def test_a_requirement_without_a_transform_to_blame() -> None:
    proto = samples.proto_of(samples.map_only)
    proto.requirements.append("beam:requirement:odd:v1")
    with pytest.raises(UnsupportedPipeline, match="beam:requirement:odd:v1"):
        translate(samples.job_of(proto))


def test_many_users_of_a_feature_are_counted() -> None:
    def build(p: beam.Pipeline) -> None:
        elements = pairs(p)
        for n in range(3):
            elements | f"Here {n}" >> beam.ParDo(Stateful())

    with pytest.raises(UnsupportedPipeline, match=r"'Here 0.* and 2 more"):
        samples.plan_of(build)


@pytest.mark.parametrize(
    "arguments",
    [
        {"trigger": trigger.DefaultTrigger()},
        {"trigger": trigger.AfterWatermark()},
        {},
    ],
    ids=["default", "after watermark", "unsaid"],
)
def test_triggers_that_fire_once_at_the_end_are_fine(arguments: dict[str, Any]) -> None:
    samples.plan_of(windowed(**arguments))


def test_a_trigger_that_groups_nothing_is_fine() -> None:
    samples.plan_of(
        lambda p: (
            pairs(p)
            | beam.WindowInto(
                FixedWindows(10),
                trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.Map(str)
        )
    )
