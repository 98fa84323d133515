"""What comes in and goes out of a stage, byte for byte against Beam's stock windowed coder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coder_impl, coders
from apache_beam.runners.common import NameContext
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, WindowedValue
from chunks import decode_elements, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_runner import Port

from beam_runner_worker.embedded import sinks
from beam_runner_worker.embedded.elements import ElementDecoder
from beam_runner_worker.embedded.groups import GroupDecoder
from beam_runner_worker.embedded.lazy import LazyValues
from beam_runner_worker.embedded.sinks import create_sink, to_millis
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.records import ElementChunk, GroupChunk, OutputEdge, OutputKind

ANY = coders.FastPrimitivesCoder()
KV = coders.TupleCoder((ANY, ANY))
GLOBAL = coders.GlobalWindowCoder()
INTERVAL = coders.IntervalWindowCoder()

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)
micros = st.one_of(
    st.integers(MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros),
    st.integers(-5000, 5000),
    st.sampled_from([MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, 0, -1, -999, -1000, -1001]),
)
intervals = st.builds(
    lambda start, size: window.IntervalWindow(start, start + size),
    st.integers(-100, 100),
    st.integers(1, 50),
)
panes = st.sampled_from(
    [
        PANE_INFO_UNKNOWN,
        PaneInfo(True, False, 0, 0, -1),
        PaneInfo(False, False, 0, 3, -1),
        PaneInfo(False, True, 2, 300, 200),
    ]
)


def elements(windows: st.SearchStrategy[tuple[Any, ...]], value: Any = values) -> Any:
    """Lists of windowed values which often have the same header as the one before."""
    header = st.tuples(micros, windows, panes)
    run = st.tuples(header, st.lists(value, min_size=1, max_size=4))
    return st.lists(run, max_size=12).map(
        lambda runs: [
            windowed_value.create(v, at, w, pane) for (at, w, pane), vs in runs for v in vs
        ]
    )


global_windows = st.just((window.GlobalWindow(),))
interval_windows = st.lists(intervals, min_size=1, max_size=3, unique=True).map(tuple)


def make_sink(coder: coders.WindowedValueCoder, edge: OutputEdge) -> Any:
    factory = CounterFactory()
    sampler = statesampler.StateSampler("test", factory)
    return create_sink(NameContext("sink", "sink"), factory, sampler, coder, edge)


def write(
    coder: coders.WindowedValueCoder, kind: OutputKind, given_: Iterable[WindowedValue], **edge: Any
) -> list[Any]:
    sink = make_sink(coder, OutputEdge("sink", kind, **edge))
    port = Port()
    sink.connect(port)
    for element in given_:
        sink.process(element)
    sink.finish()
    return port.chunks


def stock_blob(coder: coders.Coder, given_: Iterable[WindowedValue]) -> bytes:
    return b"".join(coder.get_impl().encode_nested(element) for element in given_)


def read(coder: coders.WindowedValueCoder, chunks: Iterable[ElementChunk]) -> list[WindowedValue]:
    decoder = ElementDecoder(coder)
    seen: list[WindowedValue] = []
    for chunk in chunks:
        decoder.feed(chunk, seen.append)
    assert decoder.count == len(seen)
    return seen


windowings = pytest.mark.parametrize(
    ("window_coder", "windows"), [(GLOBAL, global_windows), (INTERVAL, interval_windows)]
)


@windowings
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_elements_written_are_what_the_stock_coder_writes(
    window_coder: Any, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(ANY, window_coder)
    given_ = data.draw(elements(windows))
    for kind in (OutputKind.ELEMENTS, OutputKind.CUT_ELEMENTS):
        chunks = write(coder, kind, given_)
        assert b"".join(chunk.data for chunk in chunks) == stock_blob(coder, given_)
        assert all(
            (chunk.ends is not None) == (kind is OutputKind.CUT_ELEMENTS) for chunk in chunks
        )
        for chunk in chunks:
            decode_elements(coder.get_impl(), chunk)


@windowings
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_elements_read_are_what_the_stock_coder_reads(
    window_coder: Any, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(ANY, window_coder)
    given_ = data.draw(elements(windows))
    blob = stock_blob(coder, given_)
    expected = decode_elements(coder.get_impl(), ElementChunk(len(given_), blob))
    assert read(coder, [ElementChunk(len(given_), memoryview(blob))]) == expected
    each = [ElementChunk(1, stock_blob(coder, [element])) for element in given_]
    assert read(coder, each) == expected


@pytest.mark.parametrize("run_length", [1, 3, 5000])
def test_headers_that_change_often_or_seldom(run_length: int) -> None:
    coder = coders.WindowedValueCoder(ANY, INTERVAL)
    count = 20_000
    given_ = [
        windowed_value.create(i, 1000 * i, (window.IntervalWindow(i // run_length, 1 << 20),))
        if run_length < 10
        else windowed_value.create(i, 1000, (window.IntervalWindow(i // run_length, 1 << 20),))
        for i in range(count)
    ]
    assert read(coder, [ElementChunk(count, stock_blob(coder, given_))]) == given_


def test_a_run_shares_its_windows() -> None:
    coder = coders.WindowedValueCoder(ANY, INTERVAL)
    given_ = [windowed_value.create(i, 5000, (window.IntervalWindow(0, 9),)) for i in range(9)]
    seen = read(coder, [ElementChunk(9, stock_blob(coder, given_))])
    assert len({id(element.windows) for element in seen[1:]}) == 1


def test_a_parameterised_coder_is_used_as_it_is() -> None:
    header = bytes(8) + b"\x00\x00\x00\x01\x0f"
    coder = coders.ParamWindowedValueCoder(header, (ANY, GLOBAL))
    seen = read(coder, [ElementChunk(2, ANY.get_impl().encode_nested(7) * 2)])
    assert [element.value for element in seen] == [7, 7]
    (chunk,) = write(coder, OutputKind.ELEMENTS, seen)
    assert chunk.data == ANY.get_impl().encode_nested(7) * 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_count_that_is_wrong(count: int) -> None:
    coder = coders.WindowedValueCoder(coders.BytesCoder(), GLOBAL)
    blob = stock_blob(coder, [window.GlobalWindows.windowed_value(b"x")] * 2)
    with pytest.raises(HarnessError, match=f"chunk of {count} elements"):
        read(coder, [ElementChunk(count, blob)])


def test_the_count_is_right_while_an_element_is_processed() -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    decoder = ElementDecoder(coder)
    given_ = [window.GlobalWindows.windowed_value(i) for i in range(5)]
    counts: list[int] = []
    chunk = ElementChunk(5, stock_blob(coder, given_))
    for _ in range(2):
        decoder.feed(chunk, lambda _: counts.append(decoder.count))
    assert counts == list(range(1, 11))
    decoder.restart()
    assert decoder.count == 0


@windowings
@pytest.mark.parametrize("timestamps", [True, False])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_keyed_rows(window_coder: Any, windows: Any, timestamps: bool, data: Any) -> None:
    coder = coders.WindowedValueCoder(KV, window_coder)
    given_ = data.draw(elements(windows, st.tuples(values, values)))
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
    assert [row for chunk in chunks for row in rows(chunk)] == expected


def _stock_millis(element: WindowedValue) -> int:
    coder = coders.WindowedValueCoder(coders.BytesCoder(), GLOBAL)
    at_global = windowed_value.create(b"", element.timestamp_micros, (window.GlobalWindow(),))
    stream = coder_impl.create_InputStream(coder.get_impl().encode(at_global))
    return int(stream.read_bigendian_uint64()) - (1 << 63)


def test_rows_in_the_same_window_name_it_once() -> None:
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


def test_a_list_of_windows_may_be_changed_between_elements() -> None:
    coder = coders.WindowedValueCoder(KV, INTERVAL)
    windows = [window.IntervalWindow(0, 10)]

    def changing() -> Iterable[WindowedValue]:
        yield windowed_value.create((1, 1), 0, windows)
        windows[0] = window.IntervalWindow(10, 20)
        yield windowed_value.create((1, 2), 0, windows)

    (chunk,) = write(coder, OutputKind.KEYED, changing())
    assert [INTERVAL.decode(w).start for w in chunk.windows] == [0, 10]


def test_keyed_by_element() -> None:
    coder = coders.WindowedValueCoder(ANY, GLOBAL)
    given_ = [window.GlobalWindows.windowed_value(v) for v in ("a", 1)]
    (chunk,) = write(coder, OutputKind.KEYED, given_, keyed_by_element=True, timestamps=False)
    nested = ANY.get_impl().encode_nested
    assert list(rows(chunk)) == [(b"", nested("a"), b"", None), (b"", nested(1), b"", None)]


@pytest.mark.parametrize("kind", list(OutputKind))
def test_chunks_are_written_when_they_are_full(kind: OutputKind) -> None:
    coder = coders.WindowedValueCoder(KV, GLOBAL)

    def chunk_sizes(value: Any, count: int) -> list[int]:
        element = window.GlobalWindows.windowed_value(value)
        return [chunk.count for chunk in write(coder, kind, [element] * count)]

    assert chunk_sizes((None, None), sinks.MAX_ROWS * 2 + 5) == [sinks.MAX_ROWS, sinks.MAX_ROWS, 5]
    half = sinks.MAX_BYTES // 2
    assert chunk_sizes((b"k", b"v" * half), 5) == [2, 2, 1]
    assert chunk_sizes((b"k", b"v" * half * 4), 2) == [1, 1]
    assert chunk_sizes((1, 1), 0) == []


def test_an_element_in_many_windows_does_not_grow_a_chunk() -> None:
    coder = coders.WindowedValueCoder(KV, INTERVAL)
    windows = tuple(window.IntervalWindow(i, i + 100) for i in range(100))
    chunks = write(
        coder, OutputKind.KEYED, [windowed_value.create((1, b"v" * 100_000), 0, windows)]
    )
    assert max(chunk.count for chunk in chunks) == math.ceil(sinks.MAX_BYTES / 100_000)
    assert sum(chunk.count for chunk in chunks) == 100


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(0, 0), (999, 0), (1000, 1), (-1, 0), (-999, 0), (-1000, -1), (-1001, -1), (-(1 << 63), None)],
)
def test_to_millis(given_: int, expected: int | None) -> None:
    lowest = MIN_TIMESTAMP.micros // 1000
    assert to_millis(given_) == (lowest if expected is None else expected)


def group_chunk(
    groups: list[tuple[Any, list[Any]]], windows: Any, timestamps: list[int], pane: bytes = b"\x0f"
) -> GroupChunk:
    nested = ANY.get_impl().encode_nested
    return GroupChunk(
        keys=[nested(key) for key, _ in groups],
        windows=windows,
        timestamps=timestamps,
        counts=[len(of_key) for _, of_key in groups],
        values=[memoryview(b"".join(map(nested, of_key))) for _, of_key in groups],
        pane=pane,
    )


def read_groups(chunk: GroupChunk, window_coder: Any) -> list[WindowedValue]:
    coder = coders.TupleCoder((ANY, coders.IterableCoder(ANY)))
    decoder = GroupDecoder(coders.WindowedValueCoder(coder, window_coder))
    seen: list[WindowedValue] = []
    decoder.feed(chunk, seen.append)
    assert decoder.count == len(seen)
    return seen


@given(
    groups=st.lists(st.tuples(values, st.lists(values, max_size=4)), max_size=10),
    at=st.integers(MIN_TIMESTAMP.micros // 1000, MAX_TIMESTAMP.micros // 1000),
    pane=panes,
)
@settings(max_examples=30, deadline=None)
def test_groups(groups: list[tuple[Any, list[Any]]], at: int, pane: PaneInfo) -> None:
    encoded_pane = coder_impl.PaneInfoCoderImpl().encode_nested(pane)
    windows = [window.IntervalWindow(i // 2, 100) for i in range(len(groups))]
    encoded = [INTERVAL.get_impl().encode_nested(w) for w in windows]
    times = [max(at - i, MIN_TIMESTAMP.micros // 1000) for i in range(len(groups))]
    seen = read_groups(group_chunk(groups, encoded, times, encoded_pane), INTERVAL)
    assert seen == [
        windowed_value.create(group, time * 1000, (w,), pane)
        for group, w, time in zip(groups, windows, times, strict=True)
    ]
    seen = read_groups(group_chunk(groups, b"", times), GLOBAL)
    assert [element.value for element in seen] == groups


def test_large_groups_between_small_ones() -> None:
    large = ["v" * 100] * 1000
    groups = [("a", [1]), ("b", large), ("c", []), ("d", large), ("e", [2, 3])]
    seen = [element.value for element in read_groups(group_chunk(groups, b"", [0] * 5), GLOBAL)]
    assert [type(of_key) for _, of_key in seen] == [list, LazyValues, list, LazyValues, list]
    assert [(key, list(of_key)) for key, of_key in seen] == groups
    assert [(key, list(of_key)) for key, of_key in seen] == groups


def test_group_columns_of_different_length() -> None:
    with pytest.raises(HarnessError, match="differ in length"):
        read_groups(group_chunk([("a", [1]), ("b", [2])], b"", [0]), GLOBAL)


def test_a_source_of_groups_needs_their_coder() -> None:
    with pytest.raises(HarnessError, match="KV<key, Iterable<value>>"):
        GroupDecoder(coders.WindowedValueCoder(KV, GLOBAL))


@pytest.mark.parametrize(
    "again",
    [
        lambda v: ANY.decode(ANY.encode(v)),
        lambda v: beam.internal.pickler.loads(beam.internal.pickler.dumps(v)),
    ],
)
def test_lazy_values_are_written_as_iterables(again: Callable[[Any], Any]) -> None:
    lazy = LazyValues(ANY.get_impl(), ANY.get_impl().encode_nested(1) * 3)
    assert list(again(lazy)) == [1, 1, 1]
    assert list(again((lazy, 2))[0]) == [1, 1, 1]
