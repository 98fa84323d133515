"""Tests of a stage's input and output, byte for byte against Beam's windowed value coder."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, groupby
from typing import Any

import pytest
from apache_beam.coders import coder_impl, coders
from apache_beam.runners.common import NameContext
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_worker.errors import HarnessError
from chunks import decode_elements, read_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_runner import Port
from random_elements import (
    ANY,
    GLOBAL,
    INTERVAL,
    KV,
    draw_elements,
    global_windows,
    interval_windows,
    values,
)

from beam_runner_embedded import sinks
from beam_runner_embedded.claims import ElementClaims
from beam_runner_embedded.edges import create_sink
from beam_runner_embedded.elements import ElementDecoder
from beam_runner_embedded.keyed_sink import convert_to_millis


def make_sink(coder: coders.WindowedValueCoder, edge: OutputEdge) -> Any:
    factory = CounterFactory()
    sampler = statesampler.StateSampler("test", factory)
    return create_sink(NameContext("sink", "sink"), factory, sampler, coder, edge)


def write(
    coder: coders.WindowedValueCoder, kind: OutputKind, given_: Iterable[WindowedValue], **edge: Any
) -> list[Any]:
    sink = make_sink(coder, OutputEdge("sink", kind, **edge))
    port = Port()
    sink.connect_port(port)
    for element in given_:
        sink.process(element)
    sink.finish()
    return port.chunks


def write_runs(
    coder: coders.WindowedValueCoder, kind: OutputKind, given_: Iterable[WindowedValue], **edge: Any
) -> list[Any]:
    """Writes the same elements, with consecutive elements that differ only in their values as one
    run.
    """
    sink = make_sink(coder, OutputEdge("sink", kind, **edge))
    port = Port()
    sink.connect_port(port)
    for like, run in groupby(given_, lambda e: e.with_value(None)):
        sink.process_element_run(like, [element.value for element in run])
    sink.finish()
    return port.chunks


def stock_blob(coder: coders.Coder, given_: Iterable[WindowedValue]) -> bytes:
    return b"".join(coder.get_impl().encode_nested(element) for element in given_)


def read(coder: coders.WindowedValueCoder, chunks: Iterable[ElementChunk]) -> list[WindowedValue]:
    claims = ElementClaims()
    decoder = ElementDecoder(coder, claims)
    seen: list[WindowedValue] = []
    for chunk in chunks:
        decoder.decode_chunk(chunk, seen.append)
    assert claims.claimed_count == len(seen)
    return seen


windowings = pytest.mark.parametrize(
    ("window_coder", "windows"), [(GLOBAL, global_windows), (INTERVAL, interval_windows)]
)


@windowings
@given(data=st.data())
@settings(max_examples=30)
def test_written_elements_equal_bytes_of_beam_coder(
    window_coder: Any, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(ANY, window_coder)
    given_ = data.draw(draw_elements(windows))
    chunks = write(coder, OutputKind.ELEMENTS, given_)
    assert b"".join(chunk.data for chunk in chunks) == stock_blob(coder, given_)
    for chunk in chunks:
        assert chunk.ends is not None
        decode_elements(coder.get_impl(), chunk)


@windowings
@given(data=st.data())
@settings(max_examples=30)
def test_read_elements_equal_elements_of_beam_coder(
    window_coder: Any, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(ANY, window_coder)
    given_ = data.draw(draw_elements(windows))
    blob = stock_blob(coder, given_)
    expected = decode_elements(coder.get_impl(), ElementChunk(len(given_), blob))
    assert read(coder, [ElementChunk(len(given_), memoryview(blob))]) == expected
    each = [ElementChunk(1, stock_blob(coder, [element])) for element in given_]
    assert read(coder, each) == expected


@pytest.mark.parametrize("run_length", [1, 3, 5000])
def test_element_headers_with_frequent_or_rare_changes_survive_round_trip(run_length: int) -> None:
    coder = coders.WindowedValueCoder(ANY, INTERVAL)
    count = 20_000
    given_ = [
        windowed_value.create(i, 1000 * i, (window.IntervalWindow(i // run_length, 1 << 20),))
        if run_length < 10
        else windowed_value.create(i, 1000, (window.IntervalWindow(i // run_length, 1 << 20),))
        for i in range(count)
    ]
    assert read(coder, [ElementChunk(count, stock_blob(coder, given_))]) == given_


def test_consecutive_elements_share_window_objects() -> None:
    coder = coders.WindowedValueCoder(ANY, INTERVAL)
    given_ = [windowed_value.create(i, 5000, (window.IntervalWindow(0, 9),)) for i in range(9)]
    seen = read(coder, [ElementChunk(9, stock_blob(coder, given_))])
    assert len({id(element.windows) for element in seen[1:]}) == 1


def test_parameterized_coder_of_edge_is_used_unchanged() -> None:
    header = bytes(8) + b"\x00\x00\x00\x01\x0f"
    coder = coders.ParamWindowedValueCoder(header, (ANY, GLOBAL))
    seen = read(coder, [ElementChunk(2, ANY.get_impl().encode_nested(7) * 2)])
    assert [element.value for element in seen] == [7, 7]
    (chunk,) = write(coder, OutputKind.ELEMENTS, seen)
    assert chunk.data == ANY.get_impl().encode_nested(7) * 2


@pytest.mark.parametrize("count", [1, 3])
def test_encoded_chunk_with_wrong_count_is_refused(count: int) -> None:
    coder = coders.WindowedValueCoder(coders.BytesCoder(), GLOBAL)
    blob = stock_blob(coder, [window.GlobalWindows.windowed_value(b"x")] * 2)
    with pytest.raises(HarnessError, match=f"chunk of {count} elements"):
        read(coder, [ElementChunk(count, blob)])


def test_element_count_is_right_during_processing() -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    claims = ElementClaims()
    decoder = ElementDecoder(coder, claims)
    given_ = [window.GlobalWindows.windowed_value(i) for i in range(5)]
    counts: list[int] = []
    chunk = ElementChunk(5, stock_blob(coder, given_))
    for _ in range(2):
        decoder.decode_chunk(chunk, lambda _: counts.append(claims.claimed_count))
    assert counts == list(range(1, 11))
    claims.start_bundle()
    assert claims.claimed_count == 0


@pytest.mark.parametrize(("first", "last"), [(0, None), (2, None), (0, 3), (1, 4), (3, 3), (5, 5)])
@pytest.mark.parametrize("run_length", [1, 3, 10])
def test_selected_elements_of_chunk_are_read(first: int, last: int | None, run_length: int) -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    given_ = [
        windowed_value.create(i, i // run_length * 1000, (window.GlobalWindow(),)) for i in range(5)
    ]
    chunk = ElementChunk(5, stock_blob(coder, given_), first=first, last=last)
    seen = read(coder, [chunk, chunk])
    assert seen == given_[first:last] * 2
    assert chunk.selected_count == len(given_[first:last])


@pytest.mark.parametrize(("first", "last"), [(6, None), (-1, None), (0, 6), (3, 2)])
def test_selection_of_missing_elements_of_chunk_is_refused(first: int, last: int | None) -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    blob = stock_blob(coder, [window.GlobalWindows.windowed_value(i) for i in range(5)])
    with pytest.raises(HarnessError, match=r"Can't read elements .* of a chunk of 5 elements"):
        read(coder, [ElementChunk(5, blob, first=first, last=last)])


@given(data=st.data())
@settings(max_examples=30)
def test_chunks_have_earliest_event_time(data: Any) -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    given_ = data.draw(draw_elements(global_windows))
    for chunk in write(coder, OutputKind.ELEMENTS, given_, min_timestamp=True):
        end = window.GlobalWindow().max_timestamp().micros
        exact = min(end, *(element.timestamp_micros for element in given_)) // 1000
        assert chunk.min_timestamp == exact
        earliest = min(e.timestamp_micros for e in decode_elements(coder.get_impl(), chunk))
        assert chunk.min_timestamp * 1000 <= earliest
    assert all(chunk.min_timestamp is None for chunk in write(coder, OutputKind.ELEMENTS, given_))


def test_elements_with_timestamps_after_window_end_hold_watermark_until_window_end() -> None:
    coder = coders.WindowedValueCoder(ANY, INTERVAL)
    two = (window.IntervalWindow(0, 10), window.IntervalWindow(5, 15))
    given_ = [windowed_value.create(None, 20_000_000, windows) for windows in (two[1:], two[::-1])]
    for several, held in ((given_[:1], 14_999), (given_, 9_999)):
        (chunk,) = write(coder, OutputKind.ELEMENTS, several, min_timestamp=True)
        assert chunk.min_timestamp == held


def test_chunks_have_separate_earliest_event_times() -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    given_ = [
        windowed_value.create(None, 1000 * (i // sinks.MAX_ROWS), (window.GlobalWindow(),))
        for i in range(sinks.MAX_ROWS + 1)
    ]
    chunks = write(coder, OutputKind.ELEMENTS, given_, min_timestamp=True)
    assert [chunk.min_timestamp for chunk in chunks] == [0, 1]


@windowings
@pytest.mark.parametrize("timestamps", [True, False])
@given(data=st.data())
@settings(max_examples=30)
def test_keyed_rows_are_written(
    window_coder: Any, windows: Any, timestamps: bool, data: Any
) -> None:
    coder = coders.WindowedValueCoder(KV, window_coder)
    given_ = data.draw(draw_elements(windows, st.tuples(values, values)))
    chunks = write(coder, OutputKind.KEYED, given_, timestamps=timestamps)
    nested = ANY.get_impl().encode_nested
    expected = [
        (
            nested(element.value[0]),
            nested(element.value[1]),
            window_coder.get_impl().encode_nested(w),
            _stock_millis(element) if timestamps else None,
        )
        for element in given_
        for w in element.windows
    ]
    assert [row for chunk in chunks for row in read_rows(chunk)] == expected


@windowings
@given(data=st.data())
@settings(max_examples=20)
def test_keyed_rows_can_contain_complete_elements(
    window_coder: Any, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(KV, window_coder)
    given_ = data.draw(draw_elements(windows, st.tuples(values, values)))
    chunks = write(coder, OutputKind.KEYED, given_, whole_elements=True)
    in_one_window = [
        windowed_value.create(element.value, element.timestamp_micros, (w,), element.pane_info)
        for element in given_
        for w in element.windows
    ]
    found = [row for chunk in chunks for row in read_rows(chunk)]
    assert [row[1] for row in found] == [coder.get_impl().encode_nested(e) for e in in_one_window]
    assert [row[0] for row in found] == [
        ANY.get_impl().encode_nested(element.value[0]) for element in in_one_window
    ]


def _stock_millis(element: WindowedValue) -> int:
    coder = coders.WindowedValueCoder(coders.BytesCoder(), GLOBAL)
    at_global = windowed_value.create(b"", element.timestamp_micros, (window.GlobalWindow(),))
    stream = coder_impl.create_InputStream(coder.get_impl().encode(at_global))
    return int(stream.read_bigendian_uint64()) - (1 << 63)


def test_keyed_rows_in_same_window_share_window() -> None:
    coder = coders.WindowedValueCoder(KV, INTERVAL)
    (chunk,) = write(
        coder,
        OutputKind.KEYED,
        [windowed_value.create((1, 2), 0, (window.IntervalWindow(0, 10),)) for _ in range(3)],
    )
    assert chunk.windows == INTERVAL.get_impl().encode_nested(window.IntervalWindow(0, 10))
    coder = coders.WindowedValueCoder(KV, GLOBAL)
    (chunk,) = write(coder, OutputKind.KEYED, [window.GlobalWindows.windowed_value((1, 2))] * 3)
    assert chunk.windows == b""


def test_elements_of_output_edge_can_have_different_windows() -> None:
    coder = coders.WindowedValueCoder(KV, INTERVAL)
    windows = [window.IntervalWindow(0, 10)]

    def changing() -> Iterable[WindowedValue]:
        yield windowed_value.create((1, 1), 0, windows)
        windows[0] = window.IntervalWindow(10, 20)
        yield windowed_value.create((1, 2), 0, windows)

    (chunk,) = write(coder, OutputKind.KEYED, changing())
    assert [INTERVAL.decode(w).start for w in chunk.windows] == [0, 10]


def test_keyed_rows_use_element_as_key() -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    given_ = [window.GlobalWindows.windowed_value(v) for v in ("a", 1)]
    (chunk,) = write(coder, OutputKind.KEYED, given_, keyed_by_element=True, timestamps=False)
    nested = ANY.get_impl().encode_nested
    assert list(read_rows(chunk)) == [(b"", nested("a"), b"", None), (b"", nested(1), b"", None)]


@pytest.mark.parametrize("kind", list(OutputKind))
def test_output_chunk_is_written_when_full(kind: OutputKind) -> None:
    coder = coders.WindowedValueCoder(KV, GLOBAL)

    def chunk_sizes(value: Any, count: int) -> list[int]:
        element = window.GlobalWindows.windowed_value(value)
        return [chunk.count for chunk in write(coder, kind, [element] * count)]

    assert chunk_sizes((None, None), sinks.MAX_ROWS * 2 + 5) == [sinks.MAX_ROWS, sinks.MAX_ROWS, 5]
    half = PIECE_BYTES // 2
    assert chunk_sizes((b"k", b"v" * half), 5) == [2, 2, 1]
    assert chunk_sizes((b"k", b"v" * half * 4), 2) == [1, 1]
    assert chunk_sizes((1, 1), 0) == []


def test_element_in_many_windows_does_not_grow_chunk() -> None:
    coder = coders.WindowedValueCoder(KV, INTERVAL)
    windows = tuple(window.IntervalWindow(i, i + 100) for i in range(100))
    chunks = write(
        coder, OutputKind.KEYED, [windowed_value.create((1, b"v" * 100_000), 0, windows)]
    )
    assert max(chunk.count for chunk in chunks) == math.ceil(PIECE_BYTES / 100_000)
    assert sum(chunk.count for chunk in chunks) == 100


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(0, 0), (999, 0), (1000, 1), (-1, 0), (-999, 0), (-1000, -1), (-1001, -1), (-(1 << 63), None)],
)
def test_conversion_to_milliseconds_clamps_timestamps(given_: int, expected: int | None) -> None:
    lowest = MIN_TIMESTAMP.micros // 1000
    assert convert_to_millis(given_) == (lowest if expected is None else expected)


@windowings
@pytest.mark.parametrize("kind", list(OutputKind))
@given(data=st.data())
@settings(max_examples=20)
def test_elements_written_as_batch_equal_elements_written_singly(
    window_coder: Any, windows: Any, kind: OutputKind, data: Any
) -> None:
    keyed = kind is OutputKind.KEYED
    coder = coders.WindowedValueCoder(KV if keyed else ANY, window_coder)
    given_ = data.draw(draw_elements(windows, st.tuples(values, values) if keyed else values))
    edges: list[dict[str, Any]] = [{}, {"min_timestamp": True}]
    if keyed:
        edges = [{}, {"timestamps": True}, {"timestamps": True, "whole_elements": True}]
    for edge in edges:
        ran, one_by_one = (how(coder, kind, given_, **edge) for how in (write_runs, write))
        if keyed:
            # A run is written window by window. Elements keep their order in each window.
            ran, one_by_one = (
                sorted(chain(*map(read_rows, chunks)), key=lambda row: row[2])
                for chunks in (ran, one_by_one)
            )
        assert ran == one_by_one


@pytest.mark.parametrize("kind", list(OutputKind))
@pytest.mark.parametrize(("count", "size"), [(sinks.MAX_ROWS * 2 + 5, 1), (50, 100_000)])
@pytest.mark.parametrize("spans", [1, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_batch_of_elements_longer_than_chunk_is_split(
    kind: OutputKind, count: int, size: int, spans: int, whole: bool
) -> None:
    keyed = kind is OutputKind.KEYED
    edge = {"whole_elements": True} if whole and keyed else {}
    coder = coders.WindowedValueCoder(KV if keyed else ANY, INTERVAL)
    value = (b"k", b"v" * size) if keyed else b"v" * size
    spans_ = tuple(window.IntervalWindow(start, 20) for start in range(spans))
    given_ = [windowed_value.create(value, 0, spans_)] * count
    chunks = write_runs(coder, kind, given_, **edge)
    assert sum(chunk.count for chunk in chunks) == count * (spans if keyed else 1)
    if spans == 1 or not keyed:
        assert chunks == write(coder, kind, given_, **edge)
    else:
        assert {chunk.count for chunk in chunks[:-1]} == {chunks[0].count}
