"""Tests that stateful transforms get coders that the runner can read, and other transforms don't."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from beam_runner_worker.fnapi.skipping import UnknownCoder
from beam_runner_worker.fnapi.stateful import StatefulLayout, prepare_stateful_transforms

PAR_DO, GO_DOFN = "beam:transform:pardo:v1", "beam:go:transform:dofn:v1"


def coder(urn: str, *components: str) -> beam_runner_api_pb2.Coder:
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn)
    return beam_runner_api_pb2.Coder(spec=spec, component_coder_ids=components)


def stage(key_coder: str = "prefixed", **payload: Any) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    """Returns a stage with one transform, ``t``, after an edge with the coder ``edge``."""
    payload = beam_runner_api_pb2.ParDoPayload(**payload)
    return beam_fn_api_pb2.ProcessBundleDescriptor(
        transforms={
            "t": beam_runner_api_pb2.PTransform(
                unique_name="My/Transform",
                spec=beam_runner_api_pb2.FunctionSpec(
                    urn=PAR_DO, payload=payload.SerializeToString()
                ),
            )
        },
        coders={
            "custom": coder("mine"),
            "prefixed": coder("beam:coder:length_prefix:v1", "custom"),
            "varint": coder("beam:coder:varint:v1"),
            "window": coder("beam:coder:global_window:v1"),
            "pair": coder("beam:coder:kv:v1", key_coder, "custom"),
            "edge": coder("beam:coder:windowed_value:v1", "pair", "window"),
            "keyless": coder("beam:coder:windowed_value:v1", "prefixed", "window"),
        },
    )


def prepare(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, edge: str = "edge"
) -> tuple[StatefulLayout, beam_runner_api_pb2.ParDoPayload]:
    plan = prepare_stateful_transforms(descriptor, {"t"}, edge)
    payload = descriptor.transforms["t"].spec.payload
    return plan, beam_runner_api_pb2.ParDoPayload.FromString(payload)


def families(*names: str) -> dict[str, beam_runner_api_pb2.TimerFamilySpec]:
    return {name: {"timer_family_coder_id": "custom"} for name in names}


def test_timer_edges_use_coders_that_runner_can_read():
    descriptor = stage(timer_family_specs=families("f", "g"))
    plan, payload = prepare(descriptor)
    assert plan.present
    assert set(plan.timers) == {("t", "f"), ("t", "g")}
    assert plan.families_without_end == frozenset()
    (coder_id,) = {s.timer_family_coder_id for s in payload.timer_family_specs.values()}
    assert descriptor.coders[coder_id] == coder("beam:coder:timer:v1", "prefixed", "window")
    assert plan.timers["t", "f"].key(b"\x03abcd", 0) == 4


def test_go_sdk_gets_one_timer_end_per_transform():
    plan, _ = prepare(stage(timer_family_specs=families("g", "f", "h"), do_fn={"urn": GO_DOFN}))
    assert plan.families_without_end == {("t", "g"), ("t", "h")}


def test_ordered_list_values_are_length_prefixed():
    specs = {
        "list": {"ordered_list_spec": {"element_coder_id": "varint"}},
        "prefixed": {"ordered_list_spec": {"element_coder_id": "prefixed"}},
        "lost": {"ordered_list_spec": {"element_coder_id": "lost"}},
        "bag": {"bag_spec": {"element_coder_id": "varint"}},
    }
    descriptor = stage(state_specs=specs)
    plan, payload = prepare(descriptor)
    assert plan.present
    assert not plan.timers
    used = {name: spec.ordered_list_spec for name, spec in payload.state_specs.items()}
    added = descriptor.coders[used["list"].element_coder_id]
    assert added == coder("beam:coder:length_prefix:v1", "varint")
    assert used["prefixed"].element_coder_id == "prefixed"
    assert used["lost"].element_coder_id == "lost"
    assert payload.state_specs["bag"].bag_spec.element_coder_id == "varint"


def test_descriptors_of_stages_without_state_are_unchanged():
    descriptor = stage()
    before = descriptor.SerializeToString(deterministic=True)
    plan, _ = prepare(descriptor, "keyless")
    assert not plan.present
    assert descriptor.SerializeToString(deterministic=True) == before


def test_stateful_input_without_keys_is_refused_by_name():
    with pytest.raises(ValueError, match="'My/Transform' has no keys"):
        prepare(stage(timer_family_specs=families("f")), "keyless")


def test_ambiguous_key_encodings_are_refused():
    with pytest.raises(UnknownCoder, match="the timers of 't'.*'mine'"):
        prepare(stage("custom", timer_family_specs=families("f")))


def test_stateful_transform_inside_stage_is_refused():
    descriptor = stage(timer_family_specs=families("f"))
    with pytest.raises(ValueError, match="'My/Transform' doesn't read the input"):
        prepare_stateful_transforms(descriptor, {"other"}, "edge")
