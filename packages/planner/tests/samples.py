"""Small pipelines that together have every shape that the translation must handle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import groups_of_groups
import table_samples
from apache_beam import pvalue
from apache_beam.coders import StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    TimestampCombiner,
    TimestampedValue,
)
from beam_runner_model.jobs import JobSpec
from stateful_fn import Stateful

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_planner.translate import plan_job

Build = Callable[[beam.Pipeline], Any]
EMBEDDED = ("--environment_type=beam:env:embedded_python:v1",)
EXTERNAL = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")


def proto_of(build: Build, *flags: str) -> _protos.Pipeline:
    """Returns the pipeline as Beam's portable runner submits it."""
    # Python refuses to group a TestStream in the global window with the default trigger, unless
    # this option allows it.
    options = PipelineOptions([*(flags or EMBEDDED), "--allow_unsafe_triggers"])
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    return PortableRunner.get_proto_pipeline(pipeline, options)


@functools.cache
def _built(build: Build, flags: tuple[str, ...]) -> bytes:
    return bytes(proto_of(build, *flags).SerializeToString())


def built(build: Build, *flags: str) -> _protos.Pipeline:
    """Returns the result of `proto_of`. Builds each pipeline once, because Python builds pipelines slowly."""
    return _protos.Pipeline.FromString(_built(build, flags or EMBEDDED))


def job_of(proto: _protos.Pipeline) -> JobSpec:
    """Returns a job that runs the pipeline and needs no artifacts."""
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    return JobSpec("job-1", "sample", proto.SerializeToString(), {}, "{}", {}, "localhost:1")


@functools.cache
def plan_of(build: Build, *flags: str) -> JobPlan:
    """Returns the plan of the pipeline. Makes each plan once."""
    return plan_job(job_of(built(build, *flags)))


def map_only(p: beam.Pipeline) -> None:
    p | beam.Create([1, 2]) | beam.Map(str) | beam.Map(len)


def without_a_source(p: beam.Pipeline) -> None:
    del p


def group(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | beam.GroupByKey() | beam.Map(str)


def reshuffle_then_group(p: beam.Pipeline) -> None:
    p | beam.Create([("a", b"1")]) | beam.Reshuffle() | beam.GroupByKey() | beam.Map(str)


def two_reshuffles_then_group(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | "once" >> beam.Reshuffle()
    pairs | beam.Map(str)
    pairs | "again" >> beam.Reshuffle() | beam.GroupByKey() | "text" >> beam.Map(str)


def reshuffle_of_groups(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | beam.GroupByKey() | beam.Reshuffle() | beam.Map(str)


def group_twice(p: beam.Pipeline) -> None:
    grouped = p | beam.Create([("a", 1)]) | "first" >> beam.GroupByKey()
    grouped | beam.Map(lambda kv: (kv[0], 1)) | "second" >> beam.GroupByKey() | beam.Map(str)


def windowed_groups(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)])
    pairs | beam.WindowInto(FixedWindows(10)) | beam.GroupByKey() | beam.Map(str)
    pairs | "s" >> beam.WindowInto(Sessions(10)) | "g" >> beam.GroupByKey() | "m" >> beam.Map(str)


def combine(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | beam.CombinePerKey(sum) | beam.Map(str)


def fan_out(p: beam.Pipeline) -> None:
    numbers = p | beam.Create([("a", 1)])
    numbers | "one" >> beam.GroupByKey() | "text one" >> beam.Map(str)
    numbers | "two" >> beam.CombinePerKey(sum) | "text two" >> beam.Map(str)


def flatten_then_group(p: beam.Pipeline) -> None:
    left = p | "left" >> beam.Create([("a", 1)])
    right = p | "right" >> beam.Create([("a", 2)])
    (left, right) | beam.Flatten() | beam.GroupByKey() | beam.Map(str)


def flatten_of_kinds(p: beam.Pipeline) -> None:
    left = p | "left" >> beam.Create([1])
    right = p | "right" >> beam.Create(["a"])
    (left, right) | beam.Flatten() | beam.Reshuffle() | beam.Map(str)


def flatten_of_nothing(p: beam.Pipeline) -> None:
    () | beam.Flatten(pipeline=p) | beam.Map(str)


class _Tagged(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield pvalue.TaggedOutput("a", element)
        yield pvalue.TaggedOutput("b", element)


def flatten_of_siblings(p: beam.Pipeline) -> None:
    outputs = p | beam.Create([1]) | beam.ParDo(_Tagged()).with_outputs("a", "b")
    (outputs.a, outputs.b) | beam.Flatten() | beam.Map(lambda n: (n, n)) | beam.GroupByKey()


def side_inputs(p: beam.Pipeline) -> None:
    main = p | "main" >> beam.Create([1])
    side = p | "side" >> beam.Create([("a", 1)])
    main | "list" >> beam.Map(lambda x, y: y, pvalue.AsList(side))
    main | "dict" >> beam.Map(lambda x, y: y, pvalue.AsMultiMap(side))
    main | "itself" >> beam.Map(lambda x, y: y, pvalue.AsIter(main))


class Offsets(RestrictionProvider):
    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


class _Count(beam.DoFn):
    def process(
        self,
        element: int,
        side: Any = None,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),  # noqa: B008
    ) -> Iterator[int]:
        yield from ()


def splittable(p: beam.Pipeline) -> None:
    p | beam.Create([3]) | beam.ParDo(_Count()) | beam.Map(str)


def splittable_with_side_input(p: beam.Pipeline) -> None:
    side = p | "side" >> beam.Create([1])
    p | beam.Create([3]) | beam.ParDo(_Count(), pvalue.AsList(side)) | beam.Map(str)


def side_input_behind_a_group(p: beam.Pipeline) -> None:
    side = p | "side" >> beam.Create([1])
    sums = p | beam.Create([("a", 1)]) | beam.CombinePerKey(sum)
    sums | beam.Map(lambda x, y: y, pvalue.AsIter(side)) | beam.Map(str)


def side_input_sink_behind_a_group(p: beam.Pipeline) -> None:
    side = p | "side" >> beam.Create([1])
    grouped = p | beam.Create([("a", 1)]) | beam.GroupByKey()
    grouped | "one" >> beam.Map(lambda x, y: None, pvalue.AsIter(side))
    grouped | "two" >> beam.Map(str)


def scripted(p: beam.Pipeline) -> None:
    script = TestStream().advance_watermark_to(10).add_elements([1, 2]).advance_processing_time(5)
    p | script.advance_watermark_to_infinity() | beam.Map(str)


def scripted_groups(p: beam.Pipeline) -> None:
    p | TestStream().add_elements([("a", 1)]) | beam.GroupByKey() | beam.Map(str)


def scripted_combine(p: beam.Pipeline) -> None:
    p | TestStream().add_elements([("a", 1)]) | beam.CombinePerKey(sum) | beam.Map(str)


def scripted_reshuffle(p: beam.Pipeline) -> None:
    pairs = p | TestStream().add_elements([("a", 1)])
    pairs | beam.Reshuffle() | beam.GroupByKey() | beam.Map(str)


def scripted_twice_read(p: beam.Pipeline) -> None:
    numbers = p | TestStream().add_elements([1])
    numbers | "one" >> beam.Map(str)
    numbers | "two" >> beam.Map(lambda n, all_of_them: n, pvalue.AsIter(numbers))


def scripted_side_input(p: beam.Pipeline) -> None:
    side = p | TestStream().add_elements([1])
    p | beam.Create([1]) | beam.Map(lambda x, y: y, pvalue.AsList(side))


def scripted_flatten(p: beam.Pipeline) -> None:
    left = p | "left" >> TestStream().add_elements([("a", 1)])
    right = p | "right" >> TestStream().add_elements([("a", 2)])
    (left, right) | beam.Flatten() | beam.GroupByKey() | beam.Map(str)


def two_outputs(p: beam.Pipeline) -> None:
    script = (
        TestStream()
        .add_elements([TimestampedValue("m", 3)], tag="main")
        .advance_watermark_to(10, tag="side")
        .add_elements(["s"], tag="side")
        .advance_processing_time(1)
        .advance_watermark_to(20, tag="main")
    )
    outputs = p | script
    side = outputs["side"] | "side windows" >> beam.WindowInto(FixedWindows(5))
    (
        outputs["main"]
        | beam.WindowInto(FixedWindows(5), allowed_lateness=7)
        | beam.Map(lambda x, y: (x, y), pvalue.AsIter(side))
        | beam.Map(str)
    )


def an_output_nobody_reads(p: beam.Pipeline) -> None:
    script = TestStream().add_elements([1], tag="read").add_elements([2], tag="unread")
    outputs = p | script.advance_watermark_to(5, tag="unread")
    outputs["read"] | beam.Map(str)


def a_script_nobody_reads(p: beam.Pipeline) -> None:
    p | TestStream().add_elements([1]).advance_processing_time(3)
    p | beam.Create([1]) | beam.Map(str)


def scripted_sums(p: beam.Pipeline, combiner: Any = TimestampCombiner.OUTPUT_AT_EARLIEST) -> None:
    pairs = p | TestStream().add_elements([("a", 1)])
    windowed = pairs | beam.WindowInto(FixedWindows(1), timestamp_combiner=combiner)
    windowed | beam.CombinePerKey(sum) | beam.Map(str)


def periodic(p: beam.Pipeline) -> None:
    ticks = p | PeriodicImpulse(fire_interval=1, apply_windowing=True)
    ticks | beam.Map(lambda t: ("k", t)) | beam.GroupByKey() | beam.Map(str)


def updating_side_input(p: beam.Pipeline) -> None:
    side = (
        p
        | "ticks" >> PeriodicImpulse(fire_interval=1)
        | beam.WindowInto(
            GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterProcessingTime(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | "latest" >> beam.combiners.Latest.Globally().without_defaults()
    )
    main = p | "main" >> PeriodicImpulse(fire_interval=1, apply_windowing=True)
    main | "read" >> beam.Map(lambda x, y: y, pvalue.AsIter(side))


def every_element(count: int = 1) -> beam.PTransform:
    """Returns windowing that fires after every `count` elements."""
    return beam.WindowInto(
        FixedWindows(10),
        trigger=trigger.Repeatedly(trigger.AfterCount(count)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=30,
    )


def triggered_groups(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | every_element() | beam.GroupByKey() | beam.Map(str)


def counted_sums(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | every_element(2) | beam.CombinePerKey(sum) | beam.Map(str)


def _stateful(label: str = "Stateful") -> beam.PTransform:
    return label >> beam.ParDo(Stateful()).with_output_types(tuple[str, int])


def stateful(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | beam.Map(lambda x: x).with_output_types(tuple[str, int])
    pairs | _stateful() | beam.MapTuple(lambda k, v: v)


def stateful_siblings(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | beam.Map(lambda x: x).with_output_types(tuple[str, int])
    pairs | _stateful("one") | _stateful("two")
    pairs | _stateful("three")
    pairs | beam.MapTuple(lambda k, v: v)


def stateful_behind_everything(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)])
    grouped = pairs | beam.GroupByKey() | beam.ParDo(Stateful())
    dealt = pairs | beam.Reshuffle() | "dealt" >> beam.ParDo(Stateful())
    (grouped, dealt) | beam.Flatten() | "both" >> beam.ParDo(Stateful())


def stateful_with_side_input(p: beam.Pipeline) -> None:
    side = p | "side" >> beam.Create([1])
    pairs = p | beam.Create([("a", 1)]) | _stateful()
    pairs | beam.Map(lambda x, y: y, pvalue.AsList(side))


def scripted_stateful(p: beam.Pipeline) -> None:
    coder = TupleCoder((StrUtf8Coder(), VarIntCoder()))
    script = TestStream(coder=coder).add_elements([("a", 1)]).advance_processing_time(5)
    p | script | _stateful()


def chain(p: beam.Pipeline, links: int = 12) -> None:
    pairs = p | beam.Create([("a", 1)])
    for link in range(links):
        pairs = (
            pairs
            | f"group {link}" >> beam.GroupByKey()
            | f"sum {link}" >> beam.MapTuple(lambda k, v: (k, sum(v)))
        )


ALL: tuple[Build, ...] = (
    map_only,
    without_a_source,
    group,
    reshuffle_then_group,
    two_reshuffles_then_group,
    reshuffle_of_groups,
    group_twice,
    *groups_of_groups.ALL,
    windowed_groups,
    combine,
    fan_out,
    flatten_then_group,
    flatten_of_kinds,
    flatten_of_nothing,
    flatten_of_siblings,
    side_inputs,
    splittable,
    splittable_with_side_input,
    side_input_behind_a_group,
    side_input_sink_behind_a_group,
    scripted,
    scripted_groups,
    scripted_combine,
    scripted_reshuffle,
    scripted_twice_read,
    scripted_side_input,
    scripted_flatten,
    two_outputs,
    an_output_nobody_reads,
    a_script_nobody_reads,
    periodic,
    updating_side_input,
    triggered_groups,
    stateful,
    stateful_siblings,
    stateful_behind_everything,
    stateful_with_side_input,
    scripted_stateful,
    chain,
    *table_samples.ALL,
)


def writers(plan: JobPlan, buffer_id: str | None) -> list[StagePlan]:
    return [stage for stage in plan.stages.values() if buffer_id in stage.outputs.values()]
