"""Tests of the input of a bundle: slices of rows, and the remaining input after a split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from apache_beam.coders.coders import BytesCoder, IntervalWindowCoder, WindowedValueCoder
from apache_beam.transforms import window as beam_window
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_data.rows.files import RowFileWriter
from beam_runner_data.rows.refs import FileRows, InlineRows, RowsRef
from beam_runner_data.rows.row import build_element_row
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_model.facts import DataStatistics
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow
from hypothesis import given
from hypothesis import strategies as st
from small_plans import chunk_of, cut, elements, encoded, values_of

from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import (
    InputWindows,
    count_elements,
    find_input_of_element,
    list_remaining_inputs,
    make_residual_inputs,
    read_element_chunks,
    split_inputs,
)

NOWHERE = Path("no such folder")


def value(number: int) -> bytes:
    return b"%d" % number


def inputs_of(shapes: Sequence[tuple[Sequence[int], int, int]]) -> list[Input]:
    """Returns inputs of rows of these sizes, each shortened by some elements at both ends."""
    inputs = []
    number = 0
    for name, (rows, head, tail) in enumerate(shapes):
        blobs = []
        for size in rows:
            row = build_element_row(0, chunk_of(map(value, range(number, number + size))))
            blobs.append((row.kind, row.data))
            number += size
        count = sum(rows)
        whole = Data(InlineRows(str(name), tuple(blobs)), DataStatistics(count, 100 * count, 0))
        head = min(head, count - 1)
        tail = min(tail, count - head - 1)
        sliced = head or tail
        inputs.append(Input(cut(whole, head, count - tail) if sliced else whole))
    return inputs


def read(inputs: Sequence[Input], folder: Path = NOWHERE) -> list[bytes]:
    chunks = list(read_element_chunks(FolderData(folder).read_rows, inputs))
    assert all(chunk.selected_count > 0 for chunk in chunks)
    return [each for chunk in chunks for each in values_of(chunk)]


shapes = st.lists(
    st.tuples(
        st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 5)
    ),
    min_size=1,
    max_size=4,
)


@given(shapes)
def test_input_slice_contains_exactly_its_elements(
    shapes: list[tuple[list[int], int, int]],
) -> None:
    inputs = inputs_of(shapes)
    expected = []
    for one in inputs:
        whole = read(
            [Input(attrs.evolve(one.data, ref=attrs.evolve(one.data.ref, first=0, last=None)))]
        )
        expected += whole[one.data.ref.first : one.data.ref.last]
    assert read(inputs) == expected
    assert count_elements(inputs) == len(expected)


def test_input_rows_are_read_from_files(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path / "file")
    for first in (0, 3, 6):
        writer.write(build_element_row(0, chunk_of(map(value, range(first, first + 3)))))
    checksum = writer.close()
    whole = Data(FileRows("file", (0, 2), checksum=checksum), DataStatistics(6, 100, 0))
    assert read([Input(whole)], tmp_path) == list(map(value, (0, 1, 2, 6, 7, 8)))
    assert read([Input(cut(whole, 2, 5))], tmp_path) == list(map(value, (2, 6, 7)))


@st.composite
def splits(draw: st.DrawFn) -> tuple[list[Input], BundleSplit]:
    """Draws inputs and a split between two elements or inside an element."""
    inputs = inputs_of(draw(shapes))
    count = count_elements(inputs)
    within = draw(st.booleans())
    if within:
        at = draw(st.integers(0, count - 1))
        halves = (encoded(b"primary"),), (ResidualElement(encoded(b"residual"), 5, 70),)
        return inputs, BundleSplit(at - 1, at + 1, *halves)
    at = draw(st.integers(0, count))
    return inputs, BundleSplit(at - 1, at)


@given(splits())
def test_split_divides_elements_into_primary_and_residual_inputs(
    case: tuple[list[Input], BundleSplit],
) -> None:
    inputs, split = case
    everything = read(inputs)
    kept, given_away = split_inputs(inputs, split, "name")
    mine = read(kept)
    rest = read([Input(residual.data) for residual in given_away])
    if split.primaries:
        assert mine == [*everything[: split.last_primary + 1], b"primary"]
        assert rest == [*everything[split.first_residual :], b"residual"]
        assert (given_away[-1].delay, given_away[-1].watermark) == (5, 70)
    else:
        assert mine + rest == everything
        assert len(mine) == split.last_primary + 1
    assert count_elements(kept) == len(mine)
    refs: list[RowsRef] = [data.data.ref for data in (*kept, *given_away)]
    assert len(set(refs)) == len(refs)
    assert all(residual.data.facts.count > 0 for residual in given_away)


@given(splits())
def test_split_leaves_inputs_outside_of_split_point_unchanged(
    case: tuple[list[Input], BundleSplit],
) -> None:
    """The scheduler recognizes returned data, and releases it once."""
    inputs, split = case
    kept, given_away = split_inputs(inputs, split, "name")
    start = 0
    for one in inputs:
        end = start + one.data.facts.count
        if end <= split.last_primary + 1:
            assert one in kept
        if start >= split.first_residual:
            (handed_back,) = (r for r in given_away if r.data == one.data)
            assert handed_back.untouched
        start = end


@given(splits(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_drain_does_not_truncate_residual_of_restriction_that_it_must_not_truncate(
    case: tuple[list[Input], BundleSplit], marks: list[bool]
) -> None:
    inputs, split = case
    inputs = [attrs.evolve(one, whole=mark) for one, mark in zip(inputs, marks, strict=False)]
    whole = {each for one in inputs if one.whole for each in read([one])}
    kept, given_away = split_inputs(inputs, split, "name")
    cut_one = split.last_primary + 1
    for part in kept:
        assert part.whole == (read([part]) == [b"primary"] or set(read([part])) <= whole)
    for residual in given_away:
        values = read([Input(residual.data)])
        of_whole = find_input_of_element(inputs, cut_one).whole if values == [b"residual"] else None
        assert residual.whole == (set(values) <= whole if of_whole is None else of_whole)


@given(splits())
def test_split_does_not_change_indexes_of_elements(
    case: tuple[list[Input], BundleSplit],
) -> None:
    inputs, split = case
    left = list_remaining_inputs(split, inputs, is_cut=bool(split.primaries))
    assert read(left) == read(inputs)[: split.first_residual]
    if split.primaries:
        assert [one.whole for one in left] == [False] * (len(left) - 1) + [True]
        assert read(left[-1:]) == read(inputs)[split.last_primary + 1 : split.first_residual]
    else:
        assert not any(one.whole for one in left)


def test_drain_can_truncate_primary_whose_restriction_is_unchanged() -> None:
    halves = (encoded(b"cut"), encoded(b"uncut"))
    split = BundleSplit(-1, 1, halves, (ResidualElement(encoded(b"residual")),))
    kept, _ = split_inputs([Input(elements("x", b"1"))], split, "name", uncut=halves[1:])
    assert [one.whole for one in kept] == [True, False]


@given(splits())
def test_split_input_sizes_sum_to_the_original_size(case: tuple[list[Input], BundleSplit]) -> None:
    inputs, split = case
    kept, given_away = split_inputs(inputs, split, "name")
    parts = [data.data.facts.size for data in (*kept, *given_away)]
    assert all(size >= 0 for size in parts)
    if not split.primaries:
        before = sum(one.data.facts.size for one in inputs)
        assert abs(sum(parts) - before) <= len(parts)


def test_split_of_input_with_selected_windows_selects_same_windows() -> None:
    windows = frozenset({"some window"})
    one = Input(elements("a", b"1", b"2"), windows=windows)  # type: ignore[arg-type]
    (kept,), (given_away,) = split_inputs([one], BundleSplit(0, 1), "name")
    assert kept.windows == given_away.windows == windows


def test_equal_residuals_have_distinct_references() -> None:
    residuals = make_residual_inputs([ResidualElement(encoded(b"x", 1234), 9, None)] * 2, "name")
    one, other = residuals
    assert one.data.ref != other.data.ref
    assert one.data.facts.min_timestamp == 1234
    assert (one.delay, one.watermark) == (9, None)
    assert read([Input(one.data)]) == [b"x"]


def test_residual_in_several_windows_becomes_data_per_window() -> None:
    windows = [IntervalWindow(0, 10), IntervalWindow(10, 300)]
    coder = WindowedValueCoder(BytesCoder(), IntervalWindowCoder()).get_impl()
    beam_windows = [beam_window.IntervalWindow(w.start / 1000, w.end / 1000) for w in windows]
    element = coder.encode_nested(WindowedValue(b"x", 0.007, beam_windows))
    residuals = make_residual_inputs(
        [ResidualElement(element, 9, 5)],
        "name",
        InputWindows(WindowCoder.INTERVAL, is_split_by_window=True),
    )
    assert [residual.data.facts.windows for residual in residuals] == [{w} for w in windows]
    assert len({residual.data.ref for residual in residuals}) == 2
    for residual, window in zip(residuals, beam_windows, strict=True):
        assert (residual.delay, residual.watermark) == (9, 5)
        (chunk,) = read_element_chunks(FolderData(NOWHERE).read_rows, [Input(residual.data)])
        assert coder.decode_nested(bytes(chunk.data)) == WindowedValue(b"x", 0.007, (window,))
    (single,) = make_residual_inputs(
        [ResidualElement(encoded(b"x"))],
        "name",
        InputWindows(WindowCoder.GLOBAL, is_split_by_window=True),
    )
    assert single.data.facts.windows == {GLOBAL_WINDOW}


@pytest.mark.parametrize("timestamp", [-(10**12), 0, 1, 1_700_000_000_123])
def test_residual_timestamp_equals_timestamp_of_its_element(timestamp: int) -> None:
    (residual,) = make_residual_inputs([ResidualElement(encoded(b"x", timestamp))], "name")
    assert residual.data.facts.min_timestamp == timestamp


def test_residual_with_timestamp_after_window_holds_watermark_at_window_end() -> None:
    """The residual holds the watermark as the complete restriction did. Otherwise its output would be
    late in its window.
    """
    coder = WindowedValueCoder(BytesCoder(), IntervalWindowCoder()).get_impl()
    element = coder.encode_nested(WindowedValue(b"x", 0.012, [beam_window.IntervalWindow(0, 0.01)]))
    windows = InputWindows(WindowCoder.INTERVAL)
    (deferred,) = make_residual_inputs([ResidualElement(element)], "name", windows)
    split = BundleSplit(-1, 1, (element,), (ResidualElement(element),))
    (kept,), (given_away,) = split_inputs([Input(elements("a", element))], split, "name", windows)
    for data in (deferred.data, kept.data, given_away.data):
        assert data.facts.min_timestamp == 9
        assert data.facts.windows is None
