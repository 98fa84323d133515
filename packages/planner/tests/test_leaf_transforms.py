"""Tests of the transforms that run: composites that only return inputs don't run."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job

Inputs = tuple[beam.PCollection, beam.PCollection]


class First(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return pcolls[0]


class Swapped(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return {"first": pcolls[1], "second": pcolls[0]}


class Twice(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return {"once": pcolls[1], "again": pcolls[1]}


class Nested(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return pcolls | First()


class Nothing(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return beam.pvalue.PDone(pcolls[0].pipeline)


class InPart(beam.PTransform):
    def expand(self, pcolls: Inputs) -> Any:
        return {"first": pcolls[0], "mapped": pcolls[1] | beam.Map(str)}


def built(composite: type[beam.PTransform]) -> _protos.Pipeline:
    """Returns a pipeline as a client without optimization sends it."""

    def build(p: beam.Pipeline) -> None:
        left, right = p | "left" >> beam.Create([1]), p | "right" >> beam.Create([2])
        returned = (left, right) | composite()
        outputs = returned.values() if isinstance(returned, dict) else [returned]
        for number, output in enumerate(outputs):
            if isinstance(output, beam.PCollection):
                output | f"len {number}" >> beam.Map(len)

    return samples.proto_of(build, *samples.EMBEDDED, "--streaming")


def plan_of(proto: _protos.Pipeline) -> JobPlan:
    return plan_job(samples.job_of(proto))


def names_of(plan: JobPlan) -> str:
    return " + ".join(stage.spec.name for stage in plan.stages.values())


def without_top(proto: _protos.Pipeline) -> None:
    """Makes the parts of Python's outermost composite roots, as other SDKs send them."""
    (top,) = proto.root_transform_ids
    parts = list(proto.components.transforms[top].subtransforms)
    del proto.components.transforms[top]
    proto.root_transform_ids[:] = parts


@pytest.mark.parametrize("flat", [False, True], ids=["within", "at the root"])
@pytest.mark.parametrize(
    ("composite", "outputs"),
    [(First, 1), (Swapped, 2), (Twice, 2), (Nested, 1), (Nothing, 0), (InPart, 2)],
)
def test_composite_that_only_returns_its_inputs_is_removed(
    composite: type[beam.PTransform], outputs: int, flat: bool
) -> None:
    proto = built(composite)
    if flat:
        without_top(proto)
    names = names_of(plan_of(proto))
    assert [f"len {number}" in names for number in range(2)] == [outputs > 0, outputs > 1]


@pytest.mark.parametrize("urn", ["", transform_urns.GENERIC_COMPOSITE, "beam:transform:mine:v1"])
def test_composite_of_any_urn_that_returns_its_inputs_needs_no_environment(urn: str) -> None:
    proto = built(First)
    for transform in proto.components.transforms.values():
        if transform.unique_name == "First":
            transform.spec.urn = urn
            transform.environment_id = ""
    assert "len 0" in names_of(plan_of(proto))


def test_transform_without_outputs_and_without_sdk_is_refused_by_name() -> None:
    proto = built(First)
    for transform in proto.components.transforms.values():
        if transform.unique_name == "First":
            transform.spec.urn = transform_urns.PUBSUB_WRITE
            transform.environment_id = ""
            transform.outputs.clear()
            del transform.inputs["1"]
    with pytest.raises(UnsupportedPipeline, match=r"pubsub_write:v1' \(in 'First'\)"):
        plan_of(proto)
