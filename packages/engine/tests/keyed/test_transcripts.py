"""Tests that every transcript in Beam's `trigger_transcripts.yaml` has its expected result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import apache_beam
import pytest
import yaml  # type: ignore[import-untyped]
from beam_runner_model import triggers as t
from beam_runner_model.panes import PaneTiming
from beam_runner_model.strategy import AccumulationMode, MergeStatus, WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import decode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    assign_windows,
)

from beam_runner_engine.keyed.groups import WindowPane

from .triggering import OurRun

SECOND = 1000
"""Milliseconds per time unit of the transcripts."""


def _transcripts() -> list[dict[str, Any]]:
    folder = os.path.dirname(apache_beam.__file__)
    with open(os.path.join(folder, "testing", "data", "trigger_transcripts.yaml")) as file:
        return list(yaml.safe_load_all(file))


@pytest.mark.parametrize("spec", _transcripts(), ids=lambda spec: spec["name"])
def test_beam_trigger_transcript_has_the_expected_result(spec: dict[str, Any]) -> None:
    if "error" in spec:
        with pytest.raises(AssertionError, match=spec["error"]):
            _run(spec)
    else:
        _run(spec)


def test_beam_trigger_transcripts_are_complete() -> None:
    assert len(_transcripts()) >= 16


def _run(spec: dict[str, Any]) -> None:
    strategy = _strategy(spec)
    # The portable model has no OUTPUT_AT_EARLIEST_TRANSFORMED. Move the timestamps of the elements
    # by 100 instead, as the transcript's window function does.
    shift = 100 * SECOND if "TRANSFORMED" in spec.get("timestamp_combiner", "") else 0
    run = OurRun(strategy)
    output: list[dict[str, Any]] = []
    for line in spec["transcript"]:
        ((action, params),) = line.items()
        if action != "expect":
            assert not output, f"Unexpected output: {output} before {action}: {params}"
        match action:
            case "input":
                for number in params:
                    time = number * SECOND
                    windows = assign_windows(strategy.window_fn, time)
                    output += [
                        _info(strategy, g) for g in run.element(number, time + shift, windows)
                    ]
            case "watermark":
                output += [_info(strategy, g) for g in run.time(watermark=params * SECOND)]
            case "expect":
                for expected in params:
                    matches = [o for o in output if all(o[k] == v for k, v in expected.items())]
                    assert matches, f"Unmatched output: {expected} in {output}"
                    output.remove(matches[0])
            case "state":
                _check_state(run, params)
            case _:
                raise ValueError(action)
    assert not output, f"Unexpected output: {output}"


def _info(strategy: WindowingStrategy, group: WindowPane) -> dict[str, Any]:
    window: Any = decode_window(strategy.window_coder, group.window)
    return {
        "window": [window.start // SECOND, window.max_timestamp() // SECOND],
        "values": sorted(group.values),
        "timestamp": group.timestamp // SECOND,
        "index": group.pane.index,
        "nonspeculative_index": group.pane.nonspeculative_index,
        "early": group.pane.timing is PaneTiming.EARLY,
        "late": group.pane.timing is PaneTiming.LATE,
        "final": group.pane.is_last,
    }


def _check_state(run: OurRun, params: dict[str, Any]) -> None:
    """Checks the expected state: present windows have elements, and tombstones and absent windows
    have none.

    In Beam's driver, a window is absent after its trigger finished. This engine stores the finished
    window until it closes, which corresponds to a tombstone.
    """
    with_elements = {
        decode_window(run.strategy.window_coder, cell.window)
        for cell in run.store.copy_cells()
        if cell.name == "~elements"
    }
    spans = [[w.start // SECOND, w.max_timestamp() // SECOND] for w in with_elements]  # type: ignore[union-attr]
    for window in params.get("present", []):
        assert window in spans
    for window in params.get("absent", []) + params.get("tombstone", []):
        assert window not in spans


def _strategy(spec: dict[str, Any]) -> WindowingStrategy:
    window_fn = _parse(spec.get("window_fn", "GlobalWindows"), _WINDOW_FNS)
    merges = isinstance(window_fn, Sessions)
    combiner = spec.get("timestamp_combiner", "OUTPUT_AT_EOW").upper()
    return WindowingStrategy(
        window_fn,
        merge_status=MergeStatus.NEEDS_MERGE if merges else MergeStatus.NON_MERGING,
        trigger=_parse(spec.get("trigger_fn", "Default"), _TRIGGERS),
        accumulation_mode=AccumulationMode[spec.get("accumulation_mode", "ACCUMULATING").upper()],
        timestamp_combiner=_COMBINERS[combiner],
        allowed_lateness=spec.get("allowed_lateness", 0) * SECOND,
    )


_COMBINERS = {
    "OUTPUT_AT_EOW": TimestampCombiner.END_OF_WINDOW,
    "OUTPUT_AT_EARLIEST": TimestampCombiner.EARLIEST,
    "OUTPUT_AT_EARLIEST_TRANSFORMED": TimestampCombiner.EARLIEST,
    "OUTPUT_AT_LATEST": TimestampCombiner.LATEST,
}
_WINDOW_FNS: dict[str, Callable[..., Any]] = {
    "GlobalWindows": GlobalWindows,
    "FixedWindows": lambda size: FixedWindows(size * SECOND),
    "CustomTimestampingFixedWindowsWindowFn": lambda size: FixedWindows(size * SECOND),
    "Sessions": lambda gap: Sessions(gap * SECOND),
}
_TRIGGERS: dict[str, Callable[..., Any]] = {
    "Default": t.DefaultTrigger,
    "AfterCount": t.AfterCount,
    "AfterWatermark": t.AfterEndOfWindow,
}


def _parse(text: str, names: dict[str, Callable[..., Any]]) -> Any:
    """Parses `Name(1, name=Other(2))`; empty parentheses are optional."""
    tokens = re.findall(r"\w+|[(),=]", text)
    tree, rest = _parse_tokens(tokens, names)
    assert not rest, text
    return tree


def _parse_tokens(tokens: list[str], names: dict[str, Callable[..., Any]]) -> tuple[Any, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first.isdigit():
        return int(first), rest
    positional, named = [], {}
    if rest and rest[0] == "(":
        rest = rest[1:]
        while rest[0] != ")":
            name = rest[0] if rest[1] == "=" else None
            value, rest = _parse_tokens(rest[2:] if name else rest, names)
            if name:
                named[name] = value
            else:
                positional.append(value)
            rest = rest[1:] if rest[0] == "," else rest
        rest = rest[1:]
    return names[first](*positional, **named), rest
