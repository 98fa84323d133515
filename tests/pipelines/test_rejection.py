"""What is not supported is refused when the job is run, by the names of feature and transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, NonMergingWindowFn
from apache_beam.utils.timestamp import Timestamp
from jobs import Pipelines


class Counting(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Iterator[Any]:
        count.add(1)
        yield element


class Waking(beam.DoFn):
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(self, element: Any, alarm: Any = beam.DoFn.TimerParam(ALARM)) -> None:
        alarm.set(Timestamp(1))

    @userstate.on_timer(ALARM)
    def ring(self) -> Iterator[str]:
        yield "ring"


class Finalizing(beam.DoFn):
    def process(
        self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[Any]:
        finalizer.register(lambda: None)
        yield element


def pairs(p: beam.Pipeline) -> beam.PCollection:
    return p | beam.Create([("k", 1)])


def state(p: beam.Pipeline) -> None:
    pairs(p) | "Counting" >> beam.ParDo(Counting())


def timers(p: beam.Pipeline) -> None:
    pairs(p) | "Waking" >> beam.ParDo(Waking())


def test_stream(p: beam.Pipeline) -> None:
    p | "Stream" >> Stream().add_elements(["a"]).advance_watermark_to_infinity()


def unbounded(p: beam.Pipeline) -> None:
    p | "Ticks" >> PeriodicImpulse(fire_interval=1)


def finalization(p: beam.Pipeline) -> None:
    p | beam.Create([1]) | "Finalizing" >> beam.ParDo(Finalizing())


def triggers(p: beam.Pipeline) -> None:
    (
        pairs(p)
        | beam.WindowInto(
            FixedWindows(10),
            trigger=trigger.Repeatedly(trigger.AfterCount(2)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | "Early" >> beam.GroupByKey()
    )


# pytest would take it for a test
test_stream.__test__ = False  # type: ignore[attr-defined]

UNSUPPORTED: dict[Callable[[beam.Pipeline], None], tuple[str, str]] = {
    state: ("state (", "Counting"),
    timers: ("timers (", "Waking"),
    test_stream: ("TestStream", "Stream"),
    unbounded: ("unbounded PCollections", "Ticks"),
    finalization: ("bundle finalization", "Finalizing"),
    triggers: ("trigger 'repeat'", "Early"),
}


@pytest.mark.parametrize("build", UNSUPPORTED, ids=lambda build: build.__name__)
def test_features(pipelines: Pipelines, build: Callable[[beam.Pipeline], None]) -> None:
    feature, transform = UNSUPPORTED[build]
    pipeline = pipelines.new("--streaming") if build is unbounded else pipelines.new()
    build(pipeline)
    with pytest.raises(Exception) as raised:
        pipeline.run()
    text = str(raised.value)
    assert "UNIMPLEMENTED" in text
    assert feature in text
    assert transform in text


def test_several_features_at_once_are_all_named(embedded: Pipelines) -> None:
    pipeline = embedded.new()
    state(pipeline)
    pipeline | "more" >> beam.Create([1]) | "Finalizing" >> beam.ParDo(Finalizing())
    with pytest.raises(Exception, match=r"(?s)state.*Counting.*finalization.*Finalizing"):
        pipeline.run()


def test_another_docker_image(embedded: Pipelines) -> None:
    pipeline = embedded.new(
        "--environment_type=DOCKER", "--environment_config=example.com/my-image:1"
    )
    pipeline | beam.Create([1]) | beam.Map(str)
    with pytest.raises(Exception, match=r"docker image 'example.com/my-image:1'"):
        pipeline.run()


class Everywhere(NonMergingWindowFn):
    """Windows with a coder that only Python knows."""

    def assign(self, assign_context: Any) -> list[Any]:
        return [Named("w")]

    def get_window_coder(self) -> beam.coders.Coder:
        return beam.coders.StrUtf8Coder()


class Named(beam.window.BoundedWindow):
    def __init__(self, name: str) -> None:
        super().__init__(Timestamp(10))
        self.name = name


def test_windows_with_a_coder_of_their_own(embedded: Pipelines) -> None:
    pipeline = embedded.new()
    pairs(pipeline) | beam.WindowInto(Everywhere()) | "Grouped" >> beam.GroupByKey()
    with pytest.raises(Exception, match=r"(?s)UNIMPLEMENTED.*windows.*Grouped"):
        pipeline.run()
