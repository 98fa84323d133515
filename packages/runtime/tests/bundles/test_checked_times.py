"""Tests of bundles that check timestamps of data. Each check has a refused case."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from beam_runner_data.rows.columns import build_batch
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.chunks import ElementChunk, KeyedChunk, OutputChunk
from beam_runner_model.facts import DataStatistics
from beam_runner_model.panes import ONLY_FIRING, PaneTiming, encode_pane
from beam_runner_model.strategy import ClosingBehavior, WindowingStrategy
from beam_runner_model.window_coders import WindowCoder, encode_window
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windowed_values import encode_header
from beam_runner_model.windows import IntervalWindow

from beam_runner_runtime.bundles.checked_times import (
    TimestampCheckingPort,
    TimestampOrderError,
    check_pane_timestamps,
    check_row_timestamps,
)

FIRST, SECOND = (encode_window(IntervalWindow(start, start + 10)) for start in (0, 10))
PANE = encode_pane(ONLY_FIRING)
FIXED = WindowingStrategy(window_fn=FixedWindows(10))


class Kept:
    """A port that stores its chunks."""

    def __init__(self) -> None:
        self.chunks: list[OutputChunk] = []

    def write(self, chunk: OutputChunk) -> None:
        self.chunks.append(chunk)


def elements(told: int | None, *rows: tuple[int, bytes]) -> ElementChunk:
    """Returns a chunk of elements at these timestamps in these windows, with a given earliest timestamp."""
    parts = [encode_header(time, window, PANE) + b"x" for time, window in rows]
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    return ElementChunk(len(rows), b"".join(parts), ends, told)


@pytest.mark.parametrize("told", [None, 3, 2])
def test_chunk_without_element_before_declared_timestamp_is_accepted(told: int | None) -> None:
    kept = Kept()
    chunk = elements(told, (5, FIRST), (3, FIRST), (12, SECOND))
    TimestampCheckingPort(kept, WindowCoder.INTERVAL, "b").write(chunk)
    assert kept.chunks == [chunk]


@pytest.mark.parametrize(
    ("told", "rows"),
    [(4, [(5, FIRST), (3, FIRST)]), (10, [(15, FIRST)])],
    ids=["an earlier element", "an element beyond its window"],
)
def test_chunk_with_element_before_declared_timestamp_is_refused(
    told: int, rows: Sequence[tuple[int, bytes]]
) -> None:
    kept = Kept()
    with pytest.raises(
        TimestampOrderError, match=f"'deal:x' holds watermarks at . ms.* says {told} ms"
    ):
        TimestampCheckingPort(kept, WindowCoder.INTERVAL, "deal:x").write(elements(told, *rows))
    assert kept.chunks == []


def keyed(*times: int, window: bytes = FIRST) -> KeyedChunk:
    ends = range(1, len(times) + 1)
    return KeyedChunk(b"k" * len(times), ends, b"v" * len(times), ends, window, times)


def data(told: int) -> Data:
    return Data("rows", DataStatistics(2, 20, told, shard=0, windows=None))


def test_rows_without_element_before_declared_timestamp_are_accepted() -> None:
    check_row_timestamps(build_batch(keyed(3, 5)), data(3), "Group")
    check_row_timestamps(build_batch(keyed(15)), data(9), "Group")
    check_row_timestamps(build_batch(attrs.evolve(keyed(3), timestamps=None)), data(3), "Group")


@pytest.mark.parametrize(("times", "told"), [((5, 3), 4), ((15,), 10)])
def test_row_before_declared_timestamp_is_refused_with_stage_name(
    times: Sequence[int], told: int
) -> None:
    with pytest.raises(TimestampOrderError, match="'Group' reads an element"):
        check_row_timestamps(build_batch(keyed(*times)), data(told), "Group")


def groups(time: int, timing: PaneTiming) -> WindowPanes:
    found = WindowPanes()
    found.append_pane(b"k", FIRST, time, attrs.evolve(ONLY_FIRING, timing=timing), ())
    return found


@pytest.mark.parametrize(
    ("time", "timing"),
    [(9, PaneTiming.EARLY), (12, PaneTiming.ON_TIME), (3, PaneTiming.LATE)],
)
def test_pane_timestamp_not_behind_output_watermark_passes_the_check(
    time: int, timing: PaneTiming
) -> None:
    check_pane_timestamps(groups(time, timing), 9, FIXED, "Group")


def test_pane_emitted_at_window_close_passes_the_check() -> None:
    always = attrs.evolve(FIXED, closing_behavior=ClosingBehavior.EMIT_ALWAYS)
    check_pane_timestamps(groups(8, PaneTiming.ON_TIME), 9, always, "Group")


@pytest.mark.parametrize("timing", [PaneTiming.EARLY, PaneTiming.ON_TIME])
def test_pane_behind_output_watermark_is_refused_with_stage_name(timing: PaneTiming) -> None:
    with pytest.raises(TimestampOrderError, match="'Group' .* 8 ms.* 9 ms"):
        check_pane_timestamps(groups(8, timing), 9, FIXED, "Group")
