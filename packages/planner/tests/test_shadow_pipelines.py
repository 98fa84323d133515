"""Tests of pipelines of shadow runs: the planner replaces the right steps, and the pipelines
continue all other data.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows
from beam_runner_model.updates import FindingVerdict, UpdateInstructions
from beam_runner_urns import transforms as transform_urns
from samples import EXTERNAL, built, job_of

from beam_runner_planner import _protos
from beam_runner_planner.digest_environment import DIGEST_ENVIRONMENT
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.shadow_pipelines import (
    ShadowPipeline,
    make_shadow_pipeline,
)
from beam_runner_planner.translate import plan_job
from beam_runner_planner.updates.compare import compare_plans

DIGEST = b"pickled"


class Custom:
    """Element with a coder that only the SDK knows."""


_SEEN: Any = beam.DoFn.StateParam(BagStateSpec("seen", VarIntCoder()))


class _Remember(beam.DoFn):
    def process(self, element: Any, seen: Any = _SEEN) -> Any:
        yield element


class _Finalize(beam.DoFn):
    def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Any:
        yield element


class _Ranges(RestrictionProvider):
    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1


class _ReadQueue(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Any,
        tracker: Any = beam.DoFn.RestrictionParam(_Ranges()),  # noqa: B008
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
    ) -> Any:
        yield element


def _stream(pipeline: beam.Pipeline) -> None:
    read = pipeline | "Read" >> PeriodicImpulse(fire_interval=1)
    keyed = read | "Key" >> beam.Map(lambda n: (str(n), Custom()))
    groups = keyed | "Windows" >> beam.WindowInto(FixedWindows(10)) | "Group" >> beam.GroupByKey()
    _ = groups | "Write groups" >> beam.Map(print)
    _ = keyed | "Remember" >> beam.ParDo(_Remember()) | "Write state" >> beam.Map(print)
    _ = keyed | "Store" >> beam.ParDo(_Remember())
    _ = keyed | "Acknowledge" >> beam.ParDo(_Finalize()) | "After" >> beam.Map(print)
    sums = read | beam.Map(lambda n: ("k", 1)) | "W" >> beam.WindowInto(FixedWindows(10))
    sums = sums | "Sum" >> beam.CombinePerKey(sum)
    _ = sums | "Sink" >> _Sink()
    _ = keyed | "Spread" >> beam.Reshuffle() | "Write spread" >> beam.Map(print)


class _Sink(beam.PTransform):
    def expand(self, sums: beam.PCollection) -> Any:
        prepared = sums | "Prepare" >> beam.Map(lambda one: one)
        return prepared | "Deal" >> beam.Reshuffle() | "Finish" >> beam.Map(print)


def _queue(pipeline: beam.Pipeline) -> None:
    read = pipeline | beam.Impulse() | "Queue" >> beam.ParDo(_ReadQueue())
    _ = read | "Write" >> beam.Map(print)


def shadow_of(proto: _protos.Pipeline, *skip: str, reread: tuple[str, ...] = ()) -> ShadowPipeline:
    return make_shadow_pipeline(proto.SerializeToString(), skip, reread, DIGEST)


def plan_of(serialized: bytes) -> JobPlan:
    return plan_job(job_of(_protos.Pipeline.FromString(serialized)))


LEAVES = {"Write groups", "Write state", "Store", "After", "Sink/Finish", "Write spread"}


def test_steps_with_effects_are_replaced() -> None:
    found = shadow_of(built(_stream))
    assert set(found.steps) == {*LEAVES, "Acknowledge"}
    transforms = _protos.Pipeline.FromString(found.pipeline).components.transforms.values()
    original = {one.unique_name: one for one in built(_stream).components.transforms.values()}
    for transform in transforms:
        if transform.unique_name in found.steps:
            payload = _protos.ParDoPayload.FromString(transform.spec.payload)
            assert payload == _protos.ParDoPayload(do_fn=payload.do_fn)
            assert payload.do_fn.payload == DIGEST
            assert transform.environment_id == DIGEST_ENVIRONMENT
            assert transform.outputs == original[transform.unique_name].outputs
        else:
            assert transform == original[transform.unique_name]


def test_skipped_composite_is_replaced_with_all_its_steps() -> None:
    found = shadow_of(built(_stream), "Sink")
    assert {"Sink/Prepare", "Sink/Finish"} < set(found.steps)


@pytest.mark.parametrize("flags", [(), EXTERNAL])
def test_shadow_plan_continues_all_data_but_that_of_replaced_steps(flags: tuple[str, ...]) -> None:
    proto = built(_stream, *flags)
    found = shadow_of(proto, "Sink")
    old, new = plan_of(proto.SerializeToString()), plan_of(found.pipeline)
    report = compare_plans(old, new, UpdateInstructions(drop=frozenset(found.steps)), {}).report
    assert not report.is_refused
    assert {one.step for one in report.findings if one.verdict is FindingVerdict.DROPPED} <= {
        *found.steps,
        "Sink/Deal",
    }
    digests = [one for one in new.stages.values() if one.spec.environment_id == DIGEST_ENVIRONMENT]
    assert len(digests) == len(found.steps)
    assert all(stage.embedded for stage in digests)
    assert not any(b"pickled_python:v1" in stage.spec.descriptor for stage in digests)


def test_source_that_acknowledges_is_refused_without_consent() -> None:
    with pytest.raises(InvalidPipeline, match="'Queue'"):
        shadow_of(built(_queue))
    assert shadow_of(built(_queue), reread=("Queue",)).steps == ("Write",)
    assert set(shadow_of(built(_queue), "Queue").steps) == {"Queue", "Write"}


def test_pipeline_without_effects_keeps_all_transforms() -> None:
    urns = {one.spec.urn for one in built(_stream).components.transforms.values()}
    assert transform_urns.GROUP_BY_KEY in urns
    kept = _protos.Pipeline.FromString(shadow_of(built(_stream)).pipeline)
    assert urns == {one.spec.urn for one in kept.components.transforms.values()}
