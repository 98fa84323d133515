"""Tests of combines that the SDK or the runner lifts."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.portability import python_urns
from apache_beam.testing.test_stream import TestStream as Script
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from beam_runner_model.buffers import BufferKind
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job

END, LATEST, EARLIEST = (
    TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.OUTPUT_AT_LATEST,
    TimestampCombiner.OUTPUT_AT_EARLIEST,
)
OPTIMIZED = ("none", "default", "all_except_fusion")


def pairs(p: beam.Pipeline, stream: bool) -> beam.PCollection:
    return p | (Script().add_elements([("a", 1)]) if stream else beam.Create([("a", 1)]))


class Packed(beam.PTransform):
    """A transform with two combiners that Beam's client packs into one combiner and lifts."""

    def annotations(self) -> dict[str, bytes]:
        return {python_urns.APPLY_COMBINER_PACKING: b""}

    def expand(self, numbers: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        return numbers | beam.CombinePerKey(sum), numbers | beam.CombinePerKey(max)


def urns_of(plan: JobPlan) -> list[str]:
    """Returns the URNs of all transforms in all stages."""
    return [
        transform.spec.urn
        for stage in plan.stages.values()
        for transform in _protos.ProcessBundleDescriptor.FromString(
            stage.spec.descriptor
        ).transforms.values()
    ]


@pytest.mark.parametrize("optimized", OPTIMIZED)
@pytest.mark.parametrize("packed", [False, True], ids=["single", "packed"])
@pytest.mark.parametrize(
    ("window_fn", "combiner", "stream", "lifted"),
    [
        (FixedWindows(10), END, True, True),
        (SlidingWindows(10, 5), LATEST, True, True),
        (FixedWindows(10), EARLIEST, True, False),
        (FixedWindows(10), EARLIEST, False, True),
        (Sessions(10), END, True, False),
        (Sessions(10), LATEST, True, False),
        (Sessions(10), EARLIEST, True, False),
        (Sessions(10), END, False, True),
    ],
)
def test_combine_is_lifted_for_each_input_kind_if_allowed(
    window_fn: WindowFn, combiner: Any, stream: bool, lifted: bool, packed: bool, optimized: str
) -> None:
    def build(p: beam.Pipeline) -> None:
        windows = beam.WindowInto(window_fn, timestamp_combiner=combiner)
        windowed = pairs(p, stream) | windows
        if packed:
            for number, combined in enumerate(windowed | Packed()):
                combined | f"text {number}" >> beam.Map(str)
        else:
            windowed | beam.CombinePerKey(sum) | beam.Map(str)

    flags = (*samples.EMBEDDED, f"--experiments=pre_optimize={optimized}")
    plan = plan_job(samples.job_of(samples.proto_of(build, *flags)))
    urns = urns_of(plan)
    assert (transform_urns.COMBINE_PER_KEY_PRECOMBINE in urns) is lifted
    assert (transform_urns.COMBINE_GROUPED_VALUES in urns) is not lifted
    groups = [b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED]
    assert len(groups) == (2 if packed and optimized == "none" else 1)


def packed_sessions(p: beam.Pipeline) -> None:
    pairs(p, True) | beam.WindowInto(Sessions(10)) | Packed()


def test_lifted_combine_with_groups_read_twice_is_refused_by_name() -> None:
    proto = samples.built(packed_sessions)
    transforms = proto.components.transforms
    merge = next(
        t
        for t in transforms.values()
        if t.spec.urn == transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS
    )
    added = transforms["again"]
    added.CopyFrom(merge)
    added.unique_name = "again"
    (made,) = merge.outputs.values()
    proto.components.pcollections["again"].CopyFrom(proto.components.pcollections[made])
    added.outputs["out"] = "again"
    proto.root_transform_ids.append("again")
    with pytest.raises(UnsupportedPipeline, match=r"merging windows.*Packed\[.*/Precombine"):
        plan_job(samples.job_of(proto))
