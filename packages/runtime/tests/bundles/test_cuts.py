"""Tests which primaries of an element in several windows are restrictions without a split."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from apache_beam.coders.coders import BytesCoder, IntervalWindowCoder, WindowedValueCoder
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_data.rows.refs import InlineRows
from beam_runner_data.rows.row import build_element_row
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.facts import DataStatistics
from beam_runner_model.window_coders import WindowCoder

from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.cuts import find_unchanged_primaries
from beam_runner_runtime.bundles.inputs import InputWindows

CODER = WindowedValueCoder(BytesCoder(), IntervalWindowCoder()).get_impl()
ROWS = FolderData(Path("no such folder")).read_rows


def encoded(value: bytes, *windows: int) -> bytes:
    """Returns an encoded value in windows of one second with these start times."""
    known = [IntervalWindow(start, start + 1) for start in windows]
    return bytes(CODER.encode_nested(WindowedValue(value, 0, known)))


def input_with(*values: bytes) -> Input:
    row = build_element_row(0, ElementChunk(len(values), b"".join(values), min_timestamp=0))
    return Input(
        Data(InlineRows("x", ((row.kind, row.data),)), DataStatistics(len(values), 100, 0))
    )


INPUTS = [input_with(encoded(b"other", 5)), input_with(encoded(b"0-9", 1, 2, 3))]
CUT, REST = b"0-5", b"5-9"


@pytest.mark.parametrize(
    ("primaries", "residuals", "uncut"),
    [
        ([(CUT, 1)], [(REST, 1), (b"0-9", 2, 3)], []),
        ([(CUT, 2), (b"0-9", 1)], [(REST, 2), (b"0-9", 3)], [1]),
        ([(b"0-9", 1, 2), (CUT, 3)], [(REST, 3)], [0]),
        ([(b"0-9", 1)], [(b"0-9", 2, 3)], [0]),
        ([(CUT, 1, 2, 3)], [(REST, 1, 2, 3)], []),
        ([], [], []),
    ],
    ids=[
        "first window",
        "second window",
        "last window",
        "between windows",
        "in all windows",
        "none",
    ],
)
def test_primaries_of_finished_windows_keep_their_complete_restriction(
    primaries: Iterable[tuple[bytes, int]], residuals: Iterable[tuple[bytes, int]], uncut: list[int]
) -> None:
    kept = tuple(encoded(*one) for one in primaries)
    split = BundleSplit(0, 2, kept, tuple(ResidualElement(encoded(*one)) for one in residuals))
    found = find_unchanged_primaries(split, INPUTS, ROWS, InputWindows(WindowCoder.INTERVAL))
    assert found == {kept[number] for number in uncut}
