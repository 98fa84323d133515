"""Checks of single transforms: the payload, and the number of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns
from beam_runner_urns.payloads import COMBINE_PARTS, PAR_DOS

from beam_runner_planner import _protos
from beam_runner_planner.leaf_transforms import RESHUFFLES, has_own_outputs
from beam_runner_planner.stateful import is_stateful, list_state_and_timer_coder_ids

_COMBINES = COMBINE_PARTS | {transform_urns.COMBINE_PER_KEY}
_PAYLOADS: Mapping[str, Any] = {
    **dict.fromkeys(PAR_DOS, _protos.ParDoPayload),
    **dict.fromkeys(_COMBINES, _protos.CombinePayload),
    transform_urns.READ: _protos.ReadPayload,
    transform_urns.TEST_STREAM: _protos.TestStreamPayload,
    transform_urns.ASSIGN_WINDOWS: _protos.WindowIntoPayload,
}
_ONE_TO_ONE = (
    RESHUFFLES
    | _COMBINES
    | spark_urns.ALL
    | {transform_urns.GROUP_BY_KEY, transform_urns.ASSIGN_WINDOWS}
)
_SOURCES = frozenset({transform_urns.IMPULSE, transform_urns.READ, transform_urns.TEST_STREAM})
_ONE_OUTPUT = _ONE_TO_ONE | {
    transform_urns.IMPULSE,
    transform_urns.READ,
    transform_urns.FLATTEN,
}
_KEYED = frozenset({transform_urns.GROUP_BY_KEY, transform_urns.COMBINE_PER_KEY})
_PAIR = 2


def find_transform_problems(
    transform: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    """Returns the problems of a transform, one clause each.

    All references of the transform must be valid, except some inside payloads.
    """
    urn = transform.spec.urn
    if not urn:
        yield "has neither subtransforms nor a URN"
        return
    payload: Any = None
    if urn in _PAYLOADS:
        try:
            payload = _PAYLOADS[urn].FromString(transform.spec.payload)
        except _protos.DecodeError:
            yield f"has a payload that doesn't match {urn!r}"
            return
    mains = dict(transform.inputs)
    if urn in PAR_DOS:
        mains = {tag: p for tag, p in mains.items() if tag not in payload.side_inputs}
    elif urn in RESHUFFLES and len(mains) > 1:
        main = find_redistributed_pcollection(transform)
        mains = {} if main is None else {"in": main}
    yield from _find_edge_problems(transform, mains)
    if urn in PAR_DOS:
        yield from _find_pardo_problems(transform, payload, components)
    elif urn in _COMBINES and payload.accumulator_coder_id not in components.coders:
        yield (f"has the accumulator coder {payload.accumulator_coder_id!r}, which is missing")
    if urn in _KEYED or (urn == transform_urns.PAR_DO and is_stateful(payload)):
        yield from _find_key_problems(mains.values(), components)


def find_redistributed_pcollection(transform: _protos.PTransform) -> str | None:
    """Returns the PCollection that a reshuffle redistributes; None if the choice is ambiguous.

    If a Python client has expanded a splittable DoFn, its reshuffle has the DoFn's side inputs,
    too.
    """
    inputs = list(transform.inputs.values())
    if len(inputs) > 1:
        inputs = [p for p in inputs if p.endswith("_split") or "_split_" in p]
    return inputs[0] if len(inputs) == 1 else None


def _find_edge_problems(transform: _protos.PTransform, mains: Mapping[str, str]) -> Iterator[str]:
    urn = transform.spec.urn
    outputs = len(set(transform.outputs.values()))
    if urn in _ONE_OUTPUT and outputs != 1:
        yield f"of kind {urn!r} has {outputs} outputs; expected 1"
    if urn in _SOURCES and mains:
        yield f"of kind {urn!r} has inputs; expected none"
    elif urn in _ONE_TO_ONE | PAR_DOS and len(mains) != 1:
        yield f"of kind {urn!r} has {len(mains)} main inputs; expected 1"
    elif urn != transform_urns.FLATTEN and len(mains) > 1:
        yield (f"of kind {urn!r} has {len(mains)} inputs, and only a Flatten can have several")
    if set(transform.outputs.values()) & set(transform.inputs.values()) and has_own_outputs(
        transform
    ):
        yield "has its input as an output"


def _find_pardo_problems(
    transform: _protos.PTransform, payload: _protos.ParDoPayload, components: _protos.Components
) -> Iterator[str]:
    coder_ids = [*list_state_and_timer_coder_ids(payload)]
    if payload.restriction_coder_id:
        coder_ids.append(payload.restriction_coder_id)
    for coder_id in coder_ids:
        if coder_id not in components.coders:
            yield f"uses the coder {coder_id!r}, which is missing"
    for tag in payload.side_inputs:
        if tag not in transform.inputs:
            yield f"has the side input {tag!r}, which is not among its inputs"
    for name, family in payload.timer_family_specs.items():
        timer = components.coders.get(family.timer_family_coder_id, _protos.Coder())
        if len(timer.component_coder_ids) != _PAIR:
            yield f"has the timer family {name!r}, whose coder has no coders of a key and a window"
    for name, spec in payload.state_specs.items():
        if spec.WhichOneof("spec") is None:
            yield f"has the state {name!r} of an unknown kind"
    expiration = payload.on_window_expiration_timer_family_spec
    if expiration and expiration not in payload.timer_family_specs:
        yield (f"has the timer family {expiration!r} for expired windows, which is missing")


def _find_key_problems(pcollections: Any, components: _protos.Components) -> Iterator[str]:
    for pcollection_id in pcollections:
        coder = components.coders[components.pcollections[pcollection_id].coder_id]
        if coder.spec.urn != coder_urns.KV:
            yield (
                f"needs keys and values, but its input {pcollection_id!r} has a coder"
                f" of kind {coder.spec.urn!r}"
            )
