"""Declarations of ParDos in the pipeline proto: state, timers, and requirements on the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
)
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_urns import state as state_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import StatefulPlan

_RUNS_USER_CODE = (transform_urns.PAR_DO, transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS)
_KINDS: dict[str, type[State]] = {
    state_urns.MULTIMAP: MultimapState,
    state_urns.ORDERED_LIST: OrderedListState,
}
_BAGS: dict[str | None, type[State]] = {
    "read_modify_write_spec": ValueState,
    "combining_spec": CombiningState,
}


def get_stateful_payload(transform: _protos.PTransform) -> _protos.ParDoPayload | None:
    """Returns the payload of a ParDo with state or timers; None for other transforms."""
    if transform.spec.urn != transform_urns.PAR_DO:
        return None
    payload = _protos.ParDoPayload.FromString(transform.spec.payload)
    return payload if is_stateful(payload) else None


def is_stateful(payload: _protos.ParDoPayload) -> bool:
    """Returns whether a transform must process its elements key by key.

    Time-sorted input is sorted within each key, so it needs keys even without state.
    """
    return bool(
        payload.state_specs
        or payload.timer_family_specs
        or payload.on_window_expiration_timer_family_spec
        or payload.requires_time_sorted_input
    )


def needs_stable_input(transform: _protos.PTransform) -> bool:
    """Returns whether a retry of the transform must get exactly the same input again."""
    if transform.spec.urn != transform_urns.PAR_DO:
        return False
    return _protos.ParDoPayload.FromString(transform.spec.payload).requires_stable_input


def may_register_callbacks(transform: _protos.PTransform) -> bool:
    """Returns whether user code may register finalization callbacks, which run after the bundle's
    commit.
    """
    if transform.spec.urn not in _RUNS_USER_CODE:
        return False
    return _protos.ParDoPayload.FromString(transform.spec.payload).requests_finalization


def find_first_stateful_transform(
    transforms: Iterable[_protos.PTransform], source_pcollection: str
) -> _protos.PTransform | None:
    """Returns the stateful transform that reads the stage's main input; None if no stateful
    transform does.
    """
    for transform in transforms:
        if source_pcollection in transform.inputs.values() and get_stateful_payload(transform):
            return transform
    return None


def plan_stateful_transform(transform: _protos.PTransform, *, scripted_clock: bool) -> StatefulPlan:
    """Returns the declarations of a stateful transform."""
    payload = _protos.ParDoPayload.FromString(transform.spec.payload)
    return StatefulPlan(
        transform_id=transform.unique_name,
        states={name: _convert_state_kind(spec) for name, spec in payload.state_specs.items()},
        timers={
            name: (
                TimeDomain.PROCESSING_TIME
                if spec.time_domain == _protos.TimeDomain.PROCESSING_TIME
                else TimeDomain.EVENT_TIME
            )
            for name, spec in payload.timer_family_specs.items()
        },
        expiration_family=payload.on_window_expiration_timer_family_spec,
        time_sorted=payload.requires_time_sorted_input,
        scripted_clock=scripted_clock,
    )


def list_state_and_timer_coder_ids(payload: _protos.ParDoPayload) -> Iterator[str]:
    """Returns the ids of the coders of a transform's states and timers."""
    for spec in payload.state_specs.values():
        if (kind := spec.WhichOneof("spec")) is not None:
            fields = getattr(spec, kind).ListFields()
            yield from (value for field, value in fields if field.name.endswith("coder_id"))
    for family in payload.timer_family_specs.values():
        yield family.timer_family_coder_id


def _convert_state_kind(spec: _protos.StateSpec) -> type[State]:
    """Returns the class of a state as the Fn API transfers it, which can differ from the state in user code.

    The kind can differ from the kind in user code: for example, the SDK stores some sets as bags or maps.
    """
    kind = _KINDS.get(spec.protocol.urn)
    return _BAGS.get(spec.WhichOneof("spec"), BagState) if kind is None else kind
