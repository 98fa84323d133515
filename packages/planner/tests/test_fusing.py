"""Tests of fusion: no stage reads data of a later stage, stages have limited depth, and cost grows linearly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import apache_beam as beam
import pytest
import samples
from apache_beam import pvalue
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.fusion import fuse_pipeline
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_planner.stage_starts import MOST_DEEP
from beam_runner_planner.translate import plan_job


def crossed(p: beam.Pipeline) -> None:
    """Builds two PCollections, each of which is the side input of the other."""
    left = p | "left" >> beam.Create([1])
    right = p | "right" >> beam.Create([2])
    left | "of right" >> beam.Map(lambda x, y: y, pvalue.AsList(right)) | "left on" >> beam.Map(str)
    right | "of left" >> beam.Map(lambda x, y: y, pvalue.AsList(left)) | "right on" >> beam.Map(str)


def in_a_ring(p: beam.Pipeline) -> None:
    """Builds three PCollections, each of which is the side input of the next."""
    numbers = [p | f"source {n}" >> beam.Create([n]) for n in range(3)]
    for n, number in enumerate(numbers):
        side = pvalue.AsIter(numbers[(n + 1) % 3])
        number | f"use {n}" >> beam.Map(lambda x, y: y, side) | f"on {n}" >> beam.Map(str)


@pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
@pytest.mark.parametrize("build", [crossed, in_a_ring])
def test_fused_stages_follow_the_stages_they_read(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    done: set[str] = set()
    for stage in plan.stages.values():
        read = [use.buffer_id for use in stage.side_inputs]
        if stage.input_buffer is not None:
            read.append(stage.input_buffer)
        assert {writer.stage_id for b in read for writer in samples.writers(plan, b)} <= done
        done.add(stage.stage_id)


def test_transforms_without_side_input_conflict_are_fused() -> None:
    ends = [stage.spec.name for stage in samples.plan_of(crossed).stages.values()]
    assert any("of right" in name and "left on" in name for name in ends)


class Shapes:
    """Pipelines of any size, built from the parts of a small pipeline."""

    def __init__(self) -> None:
        self.proto = samples.built(samples.map_only)
        self._components = self.proto.components
        self._map = next(
            t
            for t in self._components.transforms.values()
            if "Map(len)" in t.unique_name and t.spec.payload
        )
        (self.end,) = self._map.outputs.values()
        (self._before,) = self._map.inputs.values()

    def add(self, urn: str, *inputs: str) -> str:
        """Adds a transform, and returns its output PCollection."""
        name = f"{len(self._components.transforms)}"
        added = self._components.transforms[name]
        if urn == transform_urns.PAR_DO:
            added.CopyFrom(self._map)
            added.inputs.clear()
            added.outputs.clear()
        added.unique_name, added.spec.urn, added.outputs["out"] = name, urn, name
        for tag, pcollection_id in enumerate(inputs):
            added.inputs[str(tag)] = pcollection_id
        self._components.pcollections[name].CopyFrom(self._components.pcollections[self.end])
        self._components.pcollections[name].unique_name = name
        self.proto.root_transform_ids.append(name)
        return name

    def plan(self) -> JobPlan:
        return plan_job(samples.job_of(self.proto))


def depth(stage: StagePlan) -> int:
    """Returns the length of the longest chain of transforms in a stage."""
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    of = {stage.spec.input.transform_id: 0}
    made = dict.fromkeys(descriptor.transforms[stage.spec.input.transform_id].outputs.values(), 0)
    waiting = {i: t for i, t in descriptor.transforms.items() if i not in of}
    while waiting:
        here = {i: t for i, t in waiting.items() if set(t.inputs.values()) <= made.keys()}
        for transform_id, transform in here.items():
            of[transform_id] = 1 + max(made[p] for p in transform.inputs.values())
            made.update(dict.fromkeys(transform.outputs.values(), of[transform_id]))
            del waiting[transform_id]
    return max(of.values())


def test_long_chains_of_transforms_are_split_into_stages() -> None:
    shapes = Shapes()
    end = shapes.end
    for _ in range(1000):
        end = shapes.add(transform_urns.PAR_DO, end)
    stages = shapes.plan().stages.values()
    assert 10 <= len(stages) <= 13
    # The last edge of a stage writes the input of the next stage.
    assert MOST_DEEP <= max(map(depth, stages)) <= MOST_DEEP + 1
    names = [t for stage in stages for t in transforms_of(stage)]
    assert len(names) == len(set(names)) and sum(name.isdigit() for name in names) == 1000


def transforms_of(stage: StagePlan) -> list[str]:
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    edges = {stage.spec.input.transform_id, *stage.outputs}
    return [t.unique_name for i, t in descriptor.transforms.items() if i not in edges]


def flattens(count: int) -> Shapes:
    """Returns a chain of flattens, each with a second reader."""
    shapes = Shapes()
    end = shapes.end
    for _ in range(count):
        end = shapes.add(transform_urns.FLATTEN, end, shapes.end)
    shapes.add(transform_urns.PAR_DO, end)
    return shapes


def doublings(count: int) -> Shapes:
    """Returns a chain of flattens, each of which reads the previous flatten twice and so doubles its elements."""
    shapes = Shapes()
    end = shapes.end
    for _ in range(count):
        end = shapes.add(transform_urns.FLATTEN, end, end)
    shapes.add(transform_urns.PAR_DO, end)
    return shapes


def in_parallel(count: int) -> Shapes:
    shapes = Shapes()
    for _ in range(count):
        shapes.add(
            transform_urns.PAR_DO, shapes.add(transform_urns.FLATTEN, shapes.end, shapes.end)
        )
    return shapes


@pytest.mark.parametrize("of_size", [flattens, in_parallel])
def test_fusion_cost_grows_linearly(of_size: Callable[[int], Shapes]) -> None:
    def cost(count: int) -> float:
        job = samples.job_of(of_size(count).proto)
        began = time.thread_time()
        plan_job(job)
        return time.thread_time() - began

    cost(10)
    small = min(cost(100) for _ in range(3))
    # With quadratic cost, ten times the size would take a hundred times the time.
    assert cost(1000) < 40 * max(small, 0.01)


def test_repeated_branching_materializes_limited_number_of_outputs() -> None:
    plan = doublings(40).plan()
    assert sum(len(stage.outputs) for stage in plan.stages.values()) < 40 * 32
    few = doublings(3).plan()
    assert max(len(stage.outputs) for stage in few.stages.values()) == 2**3


def test_composites_of_any_depth_are_fused() -> None:
    shapes = Shapes()
    roots = list(shapes.proto.root_transform_ids)
    transforms = shapes.proto.components.transforms
    for level in range(20_000):
        transforms[f"level {level}"].unique_name = f"level {level}"
        transforms[f"level {level}"].subtransforms.extend(roots)
        roots = [f"level {level}"]
    del shapes.proto.root_transform_ids[:]
    shapes.proto.root_transform_ids.extend(roots)
    limit = sys.getrecursionlimit()
    flat = fuse_pipeline(samples.built(samples.map_only), prefixed=False)
    assert len(fuse_pipeline(shapes.proto, prefixed=False).stages) == len(flat.stages)
    assert sys.getrecursionlimit() == limit


def test_steps_with_same_name_get_different_names() -> None:
    shapes = Shapes()
    for _ in range(2):
        added = shapes.add(transform_urns.PAR_DO, shapes.end)
        shapes.proto.components.transforms[added].unique_name = "same"
    names = [name for stage in shapes.plan().stages.values() for name in transforms_of(stage)]
    assert {"same", "same_1"} <= set(names)


def test_flatten_inputs_are_transcoded_by_transform_every_sdk_supports() -> None:
    stages = fuse_pipeline(
        samples.built(samples.flatten_of_kinds, *samples.EXTERNAL), prefixed=True
    ).stages
    recoded = {t.spec.urn for s in stages for t in s.transforms if "/Transcode/" in t.unique_name}
    assert recoded == {transform_urns.FLATTEN}


@pytest.mark.parametrize("sdk", ["python", "go"])
def test_unlifted_combine_uses_urn_its_sdk_supports(sdk: str) -> None:
    proto = _protos.Pipeline()
    proto.CopyFrom(samples.built(samples.counted_sums, *samples.EXTERNAL))
    if sdk == "go":
        for environment in proto.components.environments.values():
            environment.capabilities[:] = ["beam:version:sdk_base:go:1"]
    urns = {
        transform.spec.urn
        for stage in fuse_pipeline(proto, prefixed=True).stages
        for transform in stage.transforms
    }
    assert (transform_urns.COMBINE_GROUPED_VALUES in urns) == (sdk == "python")
    assert transform_urns.COMBINE_PER_KEY_PRECOMBINE not in urns
