"""Tests that window coders become readable exactly once, for any existing coder."""

from __future__ import annotations

import pytest
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.window_coders import make_windows_readable


def components_with(*urns: str) -> _protos.Components:
    """Returns components with a strategy whose window coder nests coders with these URNs."""
    components = _protos.Components()
    for place, urn in enumerate(urns):
        components.coders[f"c{place}"].spec.urn = urn
        if place + 1 < len(urns):
            components.coders[f"c{place}"].component_coder_ids.append(f"c{place + 1}")
    components.windowing_strategies["w"].window_coder_id = "c0"
    return components


@pytest.mark.parametrize(
    "urns",
    [
        ("own",),
        (coder_urns.LENGTH_PREFIX, "own"),
        (coder_urns.CUSTOM_WINDOW, "own"),
        (coder_urns.CUSTOM_WINDOW, coder_urns.LENGTH_PREFIX, "own"),
    ],
)
def test_custom_window_coder_with_readable_length_is_not_wrapped_again(
    urns: tuple[str, ...],
) -> None:
    components = components_with(*urns)
    make_windows_readable(components)
    found = []
    waiting = [components.windowing_strategies["w"].window_coder_id]
    while waiting:
        coder = components.coders[waiting.pop()]
        found.append(coder.spec.urn)
        waiting += coder.component_coder_ids
    assert found == [coder_urns.CUSTOM_WINDOW, coder_urns.LENGTH_PREFIX, "own"]
