"""Tests that stateful transforms head their stages, and that the plan contains their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
import samples
from beam_runner_driver.ledger.scheduling import make_scheduler_graph
from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
)
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_engine.scheduler.specs import StageKind
from beam_runner_model.buffers import BufferKind
from beam_runner_model.stages import InputKind, OutputKind
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_planner.stateful import plan_stateful_transform
from beam_runner_planner.translate import plan_job


def stateful_stages(plan: JobPlan) -> list[StagePlan]:
    return [stage for stage in plan.stages.values() if stage.stateful is not None]


def payload_of(stage: StagePlan) -> tuple[Any, _protos.ParDoPayload]:
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    assert stage.stateful is not None
    transform = descriptor.transforms[stage.stateful.transform_id]
    return descriptor, _protos.ParDoPayload.FromString(transform.spec.payload)


def test_stateful_plan_has_declared_states_and_timers() -> None:
    (stage,) = stateful_stages(samples.plan_of(samples.stateful))
    stateful = stage.stateful
    assert stateful is not None and stateful.transform_id.startswith("Stateful")
    assert stateful.states == {
        "count": CombiningState,
        "last": ValueState,
        "seen": BagState,
        "list": OrderedListState,
    }
    assert stateful.timers == {
        "ts-alarm": TimeDomain.EVENT_TIME,
        "ts-clock": TimeDomain.PROCESSING_TIME,
    }
    assert not (stateful.expiration_family or stateful.time_sorted or stateful.scripted_clock)


@pytest.mark.parametrize(
    ("build", "count", "bulk"),
    [
        (samples.stateful, 1, True),
        (samples.stateful_siblings, 3, True),
        (samples.stateful_behind_everything, 3, True),
        (samples.scripted_stateful, 1, False),
    ],
)
def test_stateful_stages_are_read_by_key(build: samples.Build, count: int, bulk: bool) -> None:
    plan = samples.plan_of(build)
    stages = stateful_stages(plan)
    assert len(stages) == count
    specs = {spec.name: spec for spec in make_scheduler_graph(plan).stages}
    for stage in stages:
        assert stage.input_buffer is not None
        buffer = plan.buffers[stage.input_buffer]
        assert (buffer.kind, buffer.bulk) == (BufferKind.KEYED, bulk)
        spec = specs[stage.stage_id]
        assert (spec.kind, spec.whole_input) == (StageKind.STATEFUL, bulk)
        assert stage.spec.input.kind is InputKind.ELEMENTS
        for writer in samples.writers(plan, stage.input_buffer):
            (edge,) = (
                e for e in writer.spec.outputs if writer.outputs[e.transform_id] == buffer.buffer_id
            )
            assert edge.kind is OutputKind.KEYED and edge.whole_elements


def test_stateful_transforms_with_the_same_input_share_its_buffer() -> None:
    plan = samples.plan_of(samples.stateful_siblings)
    read = [stage.input_buffer for stage in stateful_stages(plan)]
    assert len(read) == 3 and len(set(read)) == 2


def test_transform_with_side_inputs_is_not_fused_after_state() -> None:
    plan = samples.plan_of(samples.stateful_with_side_input)
    (stage,) = stateful_stages(plan)
    assert not stage.side_inputs


def test_stateful_plan_records_scripted_clock() -> None:
    (stage,) = stateful_stages(samples.plan_of(samples.scripted_stateful))
    assert stage.stateful is not None and stage.stateful.scripted_clock


@pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
def test_stateful_coders_are_complete_and_keys_can_be_split(flags: tuple[str, ...]) -> None:
    (stage,) = stateful_stages(samples.plan_of(samples.stateful, *flags))
    descriptor, payload = payload_of(stage)
    for spec in payload.state_specs.values():
        body = getattr(spec, str(spec.WhichOneof("spec")))
        for field, value in body.ListFields():
            assert not field.name.endswith("coder_id") or value in descriptor.coders
    for family in payload.timer_family_specs.values():
        timer = descriptor.coders[family.timer_family_coder_id]
        assert timer.spec.urn == coder_urns.TIMER
        assert all(part in descriptor.coders for part in timer.component_coder_ids)
    assert stage.stateful is not None
    (read,) = descriptor.transforms[stage.stateful.transform_id].inputs.values()
    pair = descriptor.coders[descriptor.pcollections[read].coder_id]
    if pair.spec.urn == coder_urns.WINDOWED_VALUE:
        pair = descriptor.coders[pair.component_coder_ids[0]]
    key = descriptor.coders[pair.component_coder_ids[0]]
    assert (key.spec.urn == coder_urns.LENGTH_PREFIX) is (flags is samples.EXTERNAL)


@pytest.mark.parametrize(
    ("protocol", "field", "kind"),
    [
        ("multimap", "multimap_spec", MultimapState),
        ("multimap", "set_spec", MultimapState),
        ("bag", "set_spec", BagState),
        ("", "bag_spec", BagState),
        ("bag", "read_modify_write_spec", ValueState),
        ("ordered_list", "ordered_list_spec", OrderedListState),
    ],
)
def test_planned_state_kind_matches_protocol_of_state_spec(
    protocol: str, field: str, kind: type[State]
) -> None:
    spec = _protos.StateSpec()
    getattr(spec, field).SetInParent()
    if protocol:
        spec.protocol.urn = f"beam:user_state:{protocol}:v1"
    payload = _protos.ParDoPayload(state_specs={"state": spec}, requires_time_sorted_input=True)
    payload.on_window_expiration_timer_family_spec = "family"
    transform = _protos.PTransform(unique_name="t")
    transform.spec.payload = payload.SerializeToString()
    plan = plan_stateful_transform(transform, scripted_clock=False)
    assert plan.states == {"state": kind}
    assert plan.time_sorted and plan.expiration_family == "family"


def test_stable_input_is_committed_before_user_code() -> None:
    proto = samples.proto_of(samples.map_only)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1" and "len" in transform.unique_name:
            payload = _protos.ParDoPayload.FromString(transform.spec.payload)
            payload.requires_stable_input = True
            transform.spec.payload = payload.SerializeToString()
    proto.requirements.append("beam:requirement:pardo:stable_input:v1")
    plan = plan_job(samples.job_of(proto))
    (stage,) = (stage for stage in plan.stages.values() if stage.stable_input)
    assert "len" in stage.spec.name and stage.input_buffer is not None
    assert plan.needs_stable_input
    assert not samples.plan_of(samples.map_only).needs_stable_input


class CallsBack(beam.DoFn):
    def process(self, element: int, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> None:
        finalizer.register(print)


class CallsBackAtTimes(beam.DoFn):
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(samples.Offsets()),  # noqa: B008
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
    ) -> Iterator[int]:
        yield from ()


def callbacks(p: beam.Pipeline) -> None:
    numbers = p | beam.Create([1]) | beam.Reshuffle() | "whole" >> beam.ParDo(CallsBack())
    numbers | "again" >> beam.Reshuffle() | "split" >> beam.ParDo(CallsBackAtTimes())


def test_plan_marks_user_code_that_can_request_finalization() -> None:
    plan = samples.plan_of(callbacks)
    one, other = (stage.spec for stage in plan.stages.values() if stage.callbacks)
    assert "whole" in one.name and "split" in other.name
    others = samples.plan_of(samples.splittable).stages.values()
    assert not any(stage.callbacks for stage in others)
