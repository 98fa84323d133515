"""Tests that identities are unique in a plan, and stay the same if an edit doesn't concern the step."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.transforms.periodicsequence import PeriodicImpulse

from beam_runner_planner.plan import JobPlan


def stage_identities(plan: JobPlan) -> set[str]:
    return {stage.identity for stage in plan.stages.values()}


def buffer_identities(plan: JobPlan) -> set[str]:
    return {buffer.identity for buffer in plan.buffers.values()}


@pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)
def test_stage_and_buffer_identities_of_every_sample_plan_are_unique(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    assert plan.has_identities
    assert len(stage_identities(plan)) == len(plan.stages)
    assert len(buffer_identities(plan)) == len(plan.buffers)


def sums(p: beam.Pipeline, before: Any = None) -> None:
    """Builds a pipeline of every kind of stage, and puts a step before the others."""
    if before is not None:
        p | "inserted" >> beam.Create([b"x"]) | before
    source = p | "ticks" >> PeriodicImpulse(0, 10, 1) | "key" >> beam.Map(lambda t: (1, int(t)))
    if before is not None:
        source = source | "first" >> beam.Map(lambda pair: pair)
    counted = source | "Stateful" >> beam.ParDo(samples.Stateful())
    side = p | "side" >> beam.Create([1])
    counted | "read" >> beam.Map(lambda v, s: v, beam.pvalue.AsList(side))
    windowed = source | "windows" >> beam.WindowInto(samples.FixedWindows(1))
    windowed | "total" >> beam.CombinePerKey(sum)
    groups = windowed | "deal" >> beam.Reshuffle() | "group" >> beam.GroupByKey()
    groups | "print" >> beam.Map(print)


def test_stage_identities_are_unchanged_after_steps_are_inserted() -> None:
    old = samples.plan_of(sums)
    new = samples.plan_of(sums_with_insertions)
    assert stage_identities(old) == {
        "begin:ticks/ImpulseElement/Impulse",
        "begin:side/Impulse",
        "deal:ticks/GenSequence/Reshuffle",
        "keyed:Stateful",
        "stored:read",
        "lifted:total/Group",
        "deal:deal",
        "group:group",
    }
    assert stage_identities(new) == {*stage_identities(old), "begin:inserted/Impulse"}
    assert [s.stage_id for s in old.stages.values() if s.identity == "keyed:Stateful"] != [
        s.stage_id for s in new.stages.values() if s.identity == "keyed:Stateful"
    ]


def sums_with_insertions(p: beam.Pipeline) -> None:
    sums(p, before=beam.Map(len))


def test_buffer_identity_of_a_stored_pcollection_names_its_step_and_output_tag() -> None:
    plan = samples.plan_of(sums)
    stored = {identity for identity in buffer_identities(plan) if "stored:" in identity}
    assert stored == {
        "keyed:stored:key|None",
        "stored:Stateful|None",
        "side_iterable:stored:side/Map(decode)|None",
    }


def test_stage_identity_of_an_unlifted_combine_differs_from_the_lifted_combine() -> None:
    lifted = samples.plan_of(samples.scripted_combine)
    assert "lifted:CombinePerKey(sum)/Group" in stage_identities(lifted)
    unlifted = samples.plan_of(samples.counted_sums)
    assert not any(identity.startswith("lifted:") for identity in stage_identities(unlifted))
