"""Tests that all state kinds of the model, and all their coders, are handled."""

from __future__ import annotations

import pytest

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.state_specs import list_coder_ids

SPEC = beam_runner_api_pb2.StateSpec.DESCRIPTOR


@pytest.mark.parametrize("kind", [field.name for field in SPEC.oneofs_by_name["spec"].fields])
def test_state_spec_coders_are_all_found(kind: str) -> None:
    fields = SPEC.fields_by_name[kind].message_type.fields
    names = [field.name for field in fields if field.name.endswith("coder_id")]
    assert names
    spec = beam_runner_api_pb2.StateSpec()
    for name in names:
        setattr(getattr(spec, kind), name, name)
    assert sorted(coder_id for _, coder_id in list_coder_ids(spec)) == sorted(names)


def test_state_spec_without_kind_has_no_coders() -> None:
    assert list(list_coder_ids(beam_runner_api_pb2.StateSpec())) == []
