"""Coders of custom windows, which the planner wraps so that the engine can read the windows."""

from __future__ import annotations

from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos

_STANDARD = frozenset({coder_urns.GLOBAL_WINDOW, coder_urns.INTERVAL_WINDOW})


def has_sdk_window_coder(proto: _protos.WindowingStrategy, components: _protos.Components) -> bool:
    """Returns whether only the SDK knows the encoding of the windows."""
    return components.coders[proto.window_coder_id].spec.urn not in _STANDARD


def make_windows_readable(components: _protos.Components) -> None:
    """Makes SDKs encode custom windows so that the engine can distinguish the windows.

    The coder is ``beam:coder:custom_window:v1`` around the length-prefixed window. SDKs use the
    coder of the windowing strategy for all windows: of elements, state and side inputs.
    """
    readable: dict[str, str] = {}
    for strategy in components.windowing_strategies.values():
        if has_sdk_window_coder(strategy, components):
            own_id = strategy.window_coder_id
            if own_id not in readable:
                readable[own_id] = _add_readable_coder(own_id, components)
            strategy.window_coder_id = readable[own_id]


def _add_readable_coder(own_id: str, components: _protos.Components) -> str:
    own = components.coders[own_id]
    inner_id = own.component_coder_ids[0] if own.spec.urn == coder_urns.CUSTOM_WINDOW else own_id
    prefixed_id = inner_id
    if components.coders[inner_id].spec.urn != coder_urns.LENGTH_PREFIX:
        prefixed_id = _create_unused_coder_id(f"{inner_id}/length-prefixed window", components)
        components.coders[prefixed_id].spec.urn = coder_urns.LENGTH_PREFIX
        components.coders[prefixed_id].component_coder_ids[:] = [inner_id]
    readable_id = _create_unused_coder_id(f"{inner_id}/readable window", components)
    components.coders[readable_id].spec.urn = coder_urns.CUSTOM_WINDOW
    components.coders[readable_id].component_coder_ids[:] = [prefixed_id]
    return readable_id


def _create_unused_coder_id(wanted: str, components: _protos.Components) -> str:
    while wanted in components.coders:
        wanted += "'"
    return wanted
