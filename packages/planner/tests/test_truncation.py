"""Tests of restrictions that a drain truncates, with the help of the SDK or without."""

from __future__ import annotations

import pytest
import samples
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, TruncationPlan
from beam_runner_planner.translate import plan_job

ENDLESS = samples.periodic


def plans(plan: JobPlan) -> list[TruncationPlan]:
    return [s.truncation for s in plan.stages.values() if s.truncation is not None]


@pytest.mark.parametrize("build", [samples.splittable, samples.splittable_with_side_input])
@pytest.mark.parametrize("flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["here", "external"])
def test_truncation_stage_reads_and_writes_buffers_of_its_splittable_stage(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    stages = [s for s in samples.plan_of(build, *flags).stages.values() if s.splittable]
    assert stages
    for stage in stages:
        assert stage.truncation is not None and stage.truncation.spec is not None
        spec = stage.truncation.spec
        descriptor = _protos.ProcessBundleDescriptor.FromString(spec.descriptor)
        ports = {spec.input.transform_id, spec.outputs[0].transform_id}
        (transform_id,) = set(descriptor.transforms) - ports
        truncate = descriptor.transforms[transform_id]
        assert truncate.spec.urn == transform_urns.TRUNCATE_SIZED_RESTRICTION
        assert {use.transform_id for use in stage.side_inputs} <= {transform_id}
        coders = {
            _protos.RemoteGrpcPort.FromString(descriptor.transforms[p].spec.payload).coder_id
            for p in ports
        }
        assert len(coders) == 1
        named = {p for t in descriptor.transforms.values() for p in t.inputs.values()}
        assert named == set(descriptor.pcollections)


def test_unbounded_restrictions_are_dropped_if_sdk_cannot_truncate() -> None:
    proto = samples.proto_of(ENDLESS)
    assert {plan.endless for plan in plans(plan_job(samples.job_of(proto)))} == {True}
    for environment in proto.components.environments.values():
        environment.capabilities.remove(transform_urns.TRUNCATE_SIZED_RESTRICTION)
    assert {plan.spec for plan in plans(plan_job(samples.job_of(proto)))} == {None}
