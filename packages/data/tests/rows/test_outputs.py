"""Tests of output ports: rows are dealt evenly, sharded by key, or written unchanged."""

from __future__ import annotations

import struct
from collections import Counter
from zlib import crc32

import attrs
import pyarrow as pa
import pytest
from beam_runner_model.buffers import BufferKind
from beam_runner_model.chunks import ElementChunk, KeyedChunk
from beam_runner_model.window_coders import encode_interval
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_data.rows.columns import decode_batch
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.row import Row, RowKind, read_elements

SIZE = 4


def chunk_of(first: int, count: int) -> ElementChunk:
    """Returns a chunk of consecutive numbers, four bytes each."""
    data = b"".join(n.to_bytes(SIZE, "big") for n in range(first, first + count))
    return ElementChunk(count, data, [SIZE * (n + 1) for n in range(count)])


def numbers_in(row: Row) -> list[int]:
    chunk = read_elements(pa.py_buffer(row.data))
    data = bytes(chunk.data)
    assert len(data) == SIZE * chunk.count
    return [int.from_bytes(data[i : i + SIZE], "big") for i in range(0, len(data), SIZE)]


@given(st.lists(st.integers(1, 20), max_size=10), st.integers(1, 9), st.integers(0, 20))
def test_rebalanced_elements_are_evenly_distributed_and_complete(
    counts: list[int], shards: int, partition: int
) -> None:
    rows: list[Row] = []
    port = create_row_converter(BufferKind.DEALT, shards, partition, rows.append)
    first = 0
    for count in counts:
        port.write(chunk_of(first, count))
        first += count
    dealt = Counter(dict.fromkeys(range(shards), 0))
    for row in rows:
        assert row.kind is RowKind.ELEMENTS
        dealt[row.shard] += len(numbers_in(row))
    assert sorted(n for row in rows for n in numbers_in(row)) == list(range(first))
    assert max(dealt.values()) - min(dealt.values()) <= 1


@given(st.lists(st.integers(1, 20), max_size=10), st.integers(1, 9))
def test_rebalanced_elements_of_chunk_stay_in_order(counts: list[int], shards: int) -> None:
    rows: list[Row] = []
    port = create_row_converter(BufferKind.DEALT, shards, 3, rows.append)
    first = 0
    for count in counts:
        before = len(rows)
        port.write(chunk_of(first, count))
        first += count
        lengths = [row.count for row in rows[before:]]
        assert len(lengths) == min(count, shards) and max(lengths) - min(lengths) <= 1
    assert [n for row in rows for n in numbers_in(row)] == list(range(first))


@pytest.mark.parametrize(
    ("sizes", "work"),
    [
        ([3.0, 4.5, 0.0], [8, 0]),
        ([1.0], [1]),
        ([float("inf"), 2.0], [None, 2]),
        ([float("nan"), -1.0], [None, None]),
    ],
)
def test_rebalanced_restrictions_contain_their_sizes(
    sizes: list[float], work: list[int | None]
) -> None:
    rows: list[Row] = []
    port = create_row_converter(BufferKind.DEALT, 2, 0, rows.append, restrictions=True)
    data = b"".join(b"from 0 on" + struct.pack(">d", size) for size in sizes)
    ends = [(9 + 8) * number for number in range(1, len(sizes) + 1)]
    port.write(ElementChunk(len(sizes), data, ends))
    assert [row.work for row in rows] == work


def test_rebalancing_of_different_tasks_starts_at_different_shards() -> None:
    """Without this rule, a thousand tasks with one element each would all use shard 0."""
    shards = Counter[int]()
    for partition in range(12):
        rows: list[Row] = []
        create_row_converter(BufferKind.DEALT, 4, partition, rows.append).write(chunk_of(0, 1))
        shards.update(row.shard for row in rows)
    assert shards == {0: 3, 1: 3, 2: 3, 3: 3}


def test_stored_output_writes_its_elements_as_one_row() -> None:
    rows: list[Row] = []
    chunk = ElementChunk(3, b"abcdef")
    create_row_converter(BufferKind.STORED, 8, 5, rows.append).write(chunk)
    (row,) = rows
    assert read_elements(pa.py_buffer(row.data)) == chunk


KEYED = KeyedChunk(b"aabbc", [2, 4, 5], b"123", [1, 2, 3], b"w", None)


def keys_in(row: Row) -> list[bytes]:
    keys: list[bytes] = decode_batch(row.data).column("key").to_pylist()
    return keys


def test_keyed_output_writes_rows_to_shard_of_their_key() -> None:
    rows: list[Row] = []
    create_row_converter(BufferKind.GROUPED, 5, 0, rows.append).write(KEYED)
    found = {key: row.shard for row in rows for key in keys_in(row)}
    assert found == {key: crc32(key) % 5 for key in (b"aa", b"bb", b"c")}


def test_keyed_output_lists_windows_of_rows_separately_if_required() -> None:
    rows: list[Row] = []
    windows = [b"v", b"w", b"v"]
    chunk = attrs.evolve(KEYED, windows=windows)
    create_row_converter(BufferKind.KEYED, 1, 0, rows.append, windows=True).write(chunk)
    told = [(sorted(row.windows or ()), row.count, keys_in(row)) for row in rows]
    assert told == [([b"v"], 2, [b"aa", b"c"]), ([b"w"], 1, [b"bb"])]


@pytest.mark.parametrize("times", [[3, 25], [25, 25]])
def test_keyed_output_holds_watermark_until_first_window_ends(times: list[int]) -> None:
    windows = [encode_interval(10, 20), encode_interval(0, 10)]
    several = KeyedChunk(b"ab", [1, 2], b"12", [1, 2], windows, times)
    alone = attrs.evolve(several, windows=windows[0])
    for chunk, last in ((several, 9), (alone, 19)):
        rows: list[Row] = []
        create_row_converter(BufferKind.GROUPED, 1, 0, rows.append).write(chunk)
        assert [row.min_timestamp for row in rows] == [min(*times, last)]


def test_element_output_rows_have_windows_of_their_chunks() -> None:
    for kind in (BufferKind.STORED, BufferKind.DEALT):
        rows: list[Row] = []
        port = create_row_converter(kind, 2, 0, rows.append, windows=True)
        for window in (b"v", b"w"):
            port.write(attrs.evolve(chunk_of(0, 3), window=window))
        told = [window for row in rows for window in row.windows or ()]
        assert sorted(set(told)) == [b"v", b"w"]
        assert len(told) == len(rows)


def test_side_input_output_is_not_sharded() -> None:
    for kind in (BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP):
        rows: list[Row] = []
        create_row_converter(kind, 5, 3, rows.append).write(KEYED)
        assert [(row.shard, keys_in(row)) for row in rows] == [(0, [b"aa", b"bb", b"c"])]
