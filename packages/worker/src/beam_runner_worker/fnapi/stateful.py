"""Preparation of the stateful transforms of a stage: sets coders for keys, windows and timers that the
runner can read.

The runner must find the end of a key. The bytes of a key must be the same in input data, state
requests and timers. So the coders of the stage's input replace the transform's coders for all
three.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import UnknownCoder, compile_skip_function
from beam_runner_worker.fnapi.state_coders import StateCoders
from beam_runner_worker.fnapi.timers import FamilyId, TimerCoder

_GO_DOFN = "beam:go:transform:dofn:v1"


@attrs.frozen
class StatefulLayout:
    """Layout of the user state and timers of a stage; empty for most stages.

    Attributes:
        present: whether any transform of the stage has state or timers.
        state: skip functions for the user state.
        timers: layout of the encoded timers of each timer family.
        unended: the families whose end the SDK must not get; see
            :func:`_find_families_without_end`.
    """

    present: bool
    state: StateCoders
    timers: Mapping[FamilyId, TimerCoder]
    families_without_end: frozenset[FamilyId]


def prepare_stateful_transforms(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
    heads: Container[str],
    edge_coder_id: str,
) -> StatefulLayout:
    """Sets the input's coders in the stateful transforms of a stage, and returns the layout of the
    transforms' state and timers.

    Args:
        descriptor: the stage's descriptor, which this function changes.
        heads: the transforms that read the stage's input.
        edge_coder_id: id of the windowed coder of the stage's input.

    Raises:
        ValueError: A stateful transform doesn't read the stage's input, or the input has no keys.
        UnknownCoder: The runner can't find the ends of encoded keys or windows.
    """
    specs: dict[tuple[str, str], beam_runner_api_pb2.StateSpec] = {}
    timers: dict[FamilyId, TimerCoder] = {}
    families_without_end: set[FamilyId] = set()
    for transform_id, transform in descriptor.transforms.items():
        if transform.spec.urn != urns.PAR_DO:
            continue
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        if not payload.state_specs and not payload.timer_family_specs:
            continue
        if transform_id not in heads:
            raise ValueError(
                f"the stateful transform {transform.unique_name!r} doesn't read the"
                " input of its stage, so the runner can't read its keys"
            )
        key_id, window_id = _find_key_and_window_coders(
            descriptor, edge_coder_id, transform.unique_name
        )
        specs |= {(transform_id, name): spec for name, spec in payload.state_specs.items()}
        _prefix_ordered_values(descriptor, payload)
        families = _use_timer_coder(descriptor, transform_id, payload, key_id, window_id)
        timers |= families
        families_without_end |= _find_families_without_end(payload, families)
        transform.spec.payload = payload.SerializeToString()
    present = bool(specs or timers)
    return StatefulLayout(
        present, StateCoders(specs, descriptor.coders), timers, frozenset(families_without_end)
    )


def _find_key_and_window_coders(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, edge_coder_id: str, name: str
) -> tuple[str, str]:
    element_id, window_id = descriptor.coders[edge_coder_id].component_coder_ids
    element = descriptor.coders[element_id]
    if element.spec.urn != coder_urns.KV:
        raise ValueError(f"the input of the stateful transform {name!r} has no keys")
    return element.component_coder_ids[0], window_id


def _use_timer_coder(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
    transform_id: str,
    payload: beam_runner_api_pb2.ParDoPayload,
    key_id: str,
    window_id: str,
) -> dict[FamilyId, TimerCoder]:
    """Sets a timer coder with the input's key and window coders for all timer families of a transform."""
    if not payload.timer_family_specs:
        return {}
    try:
        coder = TimerCoder(
            compile_skip_function(key_id, descriptor.coders),
            compile_skip_function(window_id, descriptor.coders),
        )
    except UnknownCoder as error:
        raise UnknownCoder(f"Can't read the timers of {transform_id!r}: {error}") from None
    coder_id = f"{transform_id}/timers"
    added = descriptor.coders[coder_id]
    added.spec.urn = coder_urns.TIMER
    added.component_coder_ids[:] = [key_id, window_id]
    for spec in payload.timer_family_specs.values():
        spec.timer_family_coder_id = coder_id
    return {(transform_id, family): coder for family in payload.timer_family_specs}


def _prefix_ordered_values(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, payload: beam_runner_api_pb2.ParDoPayload
) -> None:
    """Adds length prefixes to the declared coders of ordered lists, as Beam's protocol requires.

    The Go SDK encodes values with only the declared coder. Other SDKs add the prefix themselves and
    ignore the declared coder.
    """
    for spec in payload.state_specs.values():
        if spec.WhichOneof("spec") != "ordered_list_spec":
            continue
        declared = spec.ordered_list_spec.element_coder_id
        known = descriptor.coders.get(declared)
        if known is None or known.spec.urn == coder_urns.LENGTH_PREFIX:
            continue
        coder_id = f"{declared}/prefixed"
        prefixed = descriptor.coders[coder_id]
        prefixed.spec.urn = coder_urns.LENGTH_PREFIX
        prefixed.component_coder_ids[:] = [declared]
        spec.ordered_list_spec.element_coder_id = coder_id


def _find_families_without_end(
    payload: beam_runner_api_pb2.ParDoPayload, families: Mapping[FamilyId, TimerCoder]
) -> set[FamilyId]:
    """Returns the timer families for which the runner must not send the end of input, although the
    descriptor names them.

    The Go SDK expects one end for each transform with timers, not for each family. The Go SDK waits
    forever if more ends arrive before it starts to count them.
    """
    return set(sorted(families)[1:]) if payload.do_fn.urn == _GO_DOFN else set()
