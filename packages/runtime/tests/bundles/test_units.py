"""Tests of the selection of a bundle's units (elements, groups, timers): every kind of chunk,
excluded units, and prefixes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa
from beam_runner_data.grouping.key_runs import KeySortedElements, sort_by_key
from beam_runner_model.chunks import (
    ElementChunk,
    FlushBarrier,
    GroupChunk,
    InputChunk,
    StageTimer,
    TimerChunk,
)
from beam_runner_model.quarantine import QuarantinedUnitKind
from hypothesis import given
from hypothesis import strategies as st
from user_code import Row, batch

from beam_runner_runtime.bundles.units import UnitSelection


def find_ends(chunk: ElementChunk) -> list[int]:
    return list(range(1, chunk.count + 1))


def elements(values: bytes, first: int = 0, last: int | None = None) -> ElementChunk:
    return ElementChunk(len(values), memoryview(values), first=first, last=last)


def groups(*keys: bytes) -> GroupChunk:
    count = len(keys)
    return GroupChunk(keys, b"", list(range(count)), [1] * count, [b"v"] * count, b"\x0f")


def timers(*keys: bytes) -> TimerChunk:
    return TimerChunk(tuple(StageTimer("t", "f", "", key, (b"",), 5, 5, b"\x0f") for key in keys))


def read(chunks: Iterator[InputChunk]) -> list[str]:
    """Returns the units of chunks as texts, and barriers as `-`."""
    found: list[str] = []
    for chunk in chunks:
        match chunk:
            case ElementChunk():
                last = chunk.count if chunk.last is None else chunk.last
                found += [chr(byte) for byte in bytes(chunk.data)[chunk.first : last]]
            case GroupChunk():
                found += [key.decode() for key in chunk.keys]
                assert len(chunk.values) == len(chunk.counts) == len(chunk.timestamps)
            case TimerChunk():
                found += [timer.key.decode() for timer in chunk.timers]
            case _:
                found.append("-")
    return found


MIXED = [
    elements(b"abcdef", 1, 5),
    FlushBarrier(),
    groups(b"G", b"H"),
    timers(b"1", b"2", b"3"),
    FlushBarrier(),
    elements(b"xy"),
]
ALL = ["b", "c", "d", "e", "-", "G", "H", "1", "2", "3", "-", "x", "y"]
UNITS = [one for one in ALL if one != "-"]


@given(st.sets(st.integers(0, 12)), st.none() | st.integers(0, 12))
def test_unit_selection_returns_first_elements_without_excluded_elements(
    excluded: Collection[int], limit: int | None
) -> None:
    selection = UnitSelection(find_ends, excluded, limit)
    found = [one for one in read(selection.select_chunks(iter(MIXED))) if one != "-"]
    last = len(UNITS) if limit is None else min(limit, len(UNITS))
    assert found == [one for n, one in enumerate(UNITS[:last]) if n not in excluded]
    assert selection.taken == last
    assert selection.found.keys() == {n for n in excluded if n < last}
    contents = {n: chr(unit.encoded[-1]) for n, unit in selection.found.items() if n not in (4, 5)}
    assert contents == {n: UNITS[n] for n in contents}


def test_unit_selection_of_all_elements_returns_chunks_unchanged() -> None:
    selection = UnitSelection(lambda chunk: [])
    chunks = list(selection.select_chunks(iter(MIXED)))
    assert all(one is other for one, other in zip(chunks, MIXED, strict=True))
    assert read(iter(chunks)) == ALL


def test_unit_selection_stops_reading_input_at_its_limit() -> None:
    def chunks() -> Iterator[InputChunk]:
        yield elements(b"abc")
        raise AssertionError("the input after the limit was read")

    selection = UnitSelection(find_ends, (), 3)
    assert read(selection.select_chunks(chunks())) == ["a", "b", "c"]


@given(st.sets(st.integers(0, 12)), st.integers(0, 13))
def test_unit_selection_counts_excluded_elements_as_read(excluded: set[int], passed: int) -> None:
    selection = UnitSelection(find_ends, excluded)
    read(selection.select_chunks(iter(MIXED)))
    kept = [n for n in range(len(UNITS)) if n not in excluded]
    if 0 < passed <= len(kept):
        assert selection.find_end(passed) == kept[passed - 1] + 1


def test_unit_selection_stores_content_of_each_excluded_element() -> None:
    selection = UnitSelection(find_ends, range(20))
    assert read(selection.select_chunks(iter(MIXED))) == ["-", "-"]
    kinds = [unit.kind for unit in selection.found.values()]
    assert (
        kinds
        == [QuarantinedUnitKind.ELEMENT] * 4
        + [QuarantinedUnitKind.GROUP] * 2
        + [QuarantinedUnitKind.TIMER] * 3
        + [QuarantinedUnitKind.ELEMENT] * 2
    )
    assert selection.found[4].encoded.endswith(b"G\x00\x00\x00\x01v")


ROWS = [batch(Row(b"b1"), Row(b"a2"), Row(b"b3")), batch(Row(b"c4"), Row(b"a5"), Row(b"b6"))]
ORDER = [b"b1", b"b3", b"b6", b"a2", b"a5", b"c4"]


def values(parts: Iterator[KeySortedElements]) -> list[bytes]:
    found: list[bytes] = []
    for part in parts:
        assert isinstance(part.values, pa.Array)
        assert part.expand_keys() == [value.as_py()[-2:-1] for value in part.values]
        assert len(part.timestamps) == len(part.values) == len(part.expand_windows())
        assert sum(part.counts) == len(part.values)
        assert list(accumulate(part.counts))[-1:] in ([], [len(part.values)])
        found += [value.as_py()[-2:] for value in part.values]
    return found


@given(st.sets(st.integers(0, 6)), st.none() | st.integers(0, 7))
def test_excluded_elements_do_not_change_state_of_their_key(
    excluded: Collection[int], limit: int | None
) -> None:
    selection = UnitSelection(find_ends, excluded, limit, numbers_rows=True)
    found = values(selection.select_rows(sort_by_key(ROWS)))
    order = values(sort_by_key(ROWS))
    last = len(order) if limit is None else min(limit, len(order))
    assert found == [one for n, one in enumerate(order[:last]) if n not in excluded]
    assert sorted(order) == sorted(ORDER)


def test_unit_selection_with_limit_ends_before_timers() -> None:
    selection = UnitSelection(find_ends, (), 6, numbers_rows=True)

    def chunks() -> Iterator[Any]:
        for part in selection.select_rows(sort_by_key(ROWS)):
            yield elements(bytes(len(part)))
            yield FlushBarrier()
        yield timers(b"1")

    assert len(read(selection.select_chunks(chunks()))) == 6
    assert selection.taken == 6
