"""Access to the coder ids in a ``StateSpec`` of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from beam_runner_worker._protos import beam_runner_api_pb2

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "read_modify_write_spec": {"element": "coder_id"},
    "bag_spec": {"element": "element_coder_id"},
    "combining_spec": {"element": "accumulator_coder_id"},
    "map_spec": {"key": "key_coder_id", "value": "value_coder_id"},
    "multimap_spec": {"key": "key_coder_id", "value": "value_coder_id"},
    "set_spec": {"element": "element_coder_id"},
    "ordered_list_spec": {"element": "element_coder_id"},
}


def list_coder_ids(spec: beam_runner_api_pb2.StateSpec) -> Iterator[tuple[str, str]]:
    """Yields the coder id of each component of a state (``element``, or ``key`` and ``value``),
    with the component's name.
    """
    kind = spec.WhichOneof("spec")
    if kind is not None:
        for part, field in _FIELDS[kind].items():
            yield part, getattr(getattr(spec, kind), field)
