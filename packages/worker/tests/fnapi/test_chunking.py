"""Tests that splitting returns the elements that Beam's own coders encoded, for any boundaries of messages."""

from __future__ import annotations

import random
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.coders import coders as beam_coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from beam_runner_model.chunks import ElementChunk, KeyedChunk
from beam_runner_model.panes import METADATA_BIT
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_model.varints import encode_varint
from beam_runner_model.windowed_values import WINDOWS_AT, compute_hold_time

from beam_runner_worker.fnapi.chunking import Chunker, compile_edge_coder
from beam_runner_worker.fnapi.keyed_chunking import create_chunker
from beam_runner_worker.fnapi.skipping import UnknownCoder

GLOBAL = beam_coders.GlobalWindowCoder()
INTERVAL = beam_coders.IntervalWindowCoder()
BYTES, VARINT, TEXT = coders.BytesCoder(), coders.VarIntCoder(), coders.StrUtf8Coder()
PREFIXED = beam_coders.LengthPrefixCoder(coders.PickleCoder())
PANES = [
    PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, -1),
    PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0),
    PaneInfo(False, False, PaneInfoTiming.EARLY, 300, -1),
    PaneInfo(False, False, PaneInfoTiming.LATE, 300, 2),
]


def edge_of(coder: coders.Coder, windows: coders.Coder) -> tuple[str, Any]:
    context = PipelineContext()
    coder_id = context.coders.get_id(beam_coders.WindowedValueCoder(coder, windows))
    return coder_id, context.to_runner_api().coders


def cutter(
    coder: coders.Coder, windows: coders.Coder, kind: OutputKind, **options: bool
) -> Chunker:
    coder_id, protos = edge_of(coder, windows)
    edge = OutputEdge("sink", kind, **options)
    return create_chunker(edge, compile_edge_coder(coder_id, protos, "sink"))


def encode(values: list[WindowedValue], coder: coders.Coder, windows: coders.Coder) -> list[bytes]:
    impl = beam_coders.WindowedValueCoder(coder, windows).get_impl()
    encoded = []
    for value in values:
        stream = coder_impl.create_OutputStream()
        impl.encode_to_stream(value, stream, True)
        encoded.append(stream.get())
    return encoded


def nested(coder: coders.Coder, value: Any) -> bytes:
    stream = coder_impl.create_OutputStream()
    coder.get_impl().encode_to_stream(value, stream, True)
    return stream.get()


def windowed(rng: random.Random, value: Any, windows: coders.Coder) -> WindowedValue:
    if windows is GLOBAL:
        inside = (window.GlobalWindow(),) * rng.choice([0, 1, 1, 1])
        time = rng.choice([MIN_TIMESTAMP, MAX_TIMESTAMP, Timestamp(rng.randrange(-5, 5))])
    else:
        starts = rng.sample(range(-100, 100), rng.choice([0, 1, 1, 1, 2, 3]))
        sizes = [rng.choice([1, 60, 100_000]) for _ in starts]
        inside = tuple(window.IntervalWindow(s, s + n) for s, n in zip(starts, sizes, strict=True))
        time = Timestamp(micros=rng.randrange(-(10**9), 10**9) * 1000)
    return WindowedValue(value, time, inside, rng.choice(PANES))


def in_windows(values: list[WindowedValue]) -> list[WindowedValue]:
    """Returns the elements with at least one window. All others must be dropped."""
    return [value for value in values if value.windows]


def in_the_global_window(value: Any) -> WindowedValue:
    return WindowedValue(value, Timestamp(1), (window.GlobalWindow(),))


def in_messages(rng: random.Random, data: bytes) -> list[bytes]:
    """Splits the data anywhere, also inside elements."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def slices(data: bytes, ends: Any) -> list[bytes]:
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def rows(chunks: list[Any]) -> list[tuple[bytes, bytes, bytes, int]]:
    found = []
    for chunk in chunks:
        assert isinstance(chunk, KeyedChunk)
        keys = slices(chunk.key_data, chunk.key_ends)
        values = slices(chunk.value_data, chunk.value_ends)
        n = len(values)
        assert len(keys) == n == chunk.count
        places = [chunk.windows] * n if isinstance(chunk.windows, bytes) else chunk.windows
        found += zip(keys, values, places, chunk.timestamps, strict=True)
    return found


def millis(value: WindowedValue) -> int:
    return int(abs(value.timestamp.micros) // 1000) * (1 if value.timestamp.micros >= 0 else -1)


def random_text(rng: random.Random) -> str:
    return "x" * rng.choice([0, 1, 5, 127, 128, 20_000])


PAIRS = {
    "prefixed": (PREFIXED, PREFIXED, lambda r: (random_text(r), [random_text(r)])),
    "bytes": (BYTES, TEXT, lambda r: (random_text(r).encode(), random_text(r))),
    "numbers": (
        VARINT,
        coders.FloatCoder(),
        lambda r: (r.choice([0, -1, 127, 128, 2**62]), r.random()),
    ),
    "nested": (
        coders.TupleCoder([VARINT, coders.BooleanCoder()]),
        coders.IterableCoder(coders.TupleCoder([TEXT, beam_coders.NullableCoder(VARINT)])),
        lambda r: (
            (r.randrange(1000), r.random() < 0.5),
            [(random_text(r), r.choice([None, 300])) for _ in range(r.choice([0, 1, 40]))],
        ),
    ),
}


@pytest.mark.parametrize("windows", [GLOBAL, INTERVAL], ids=["global", "interval"])
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("seed", range(8))
def test_encoded_pairs_are_split_into_keys_and_values(kind: str, windows: coders.Coder, seed: int):
    rng = random.Random(f"{kind}{seed}")
    key_coder, value_coder, make = PAIRS[kind]
    coder = coders.TupleCoder([key_coder, value_coder])
    values = [windowed(rng, make(rng), windows) for _ in range(rng.choice([1, 30, 300]))]
    data = b"".join(encode(values, coder, windows))
    keyed = cutter(coder, windows, OutputKind.KEYED)
    whole = cutter(coder, windows, OutputKind.KEYED, whole_elements=True)
    parts = in_messages(rng, data)
    chunks = [chunk for part in parts for chunk in keyed.split_chunks(part)]
    assert keyed.incomplete_bytes == 0
    in_one_window = [
        WindowedValue(value.value, value.timestamp, (place,), value.pane_info)
        for value in values
        for place in value.windows
    ]
    keys, _, places, times = zip(*rows(chunks), strict=True) if in_one_window else [()] * 4
    assert rows([chunk for part in parts for chunk in whole.split_chunks(part)]) == list(
        zip(keys, encode(in_one_window, coder, windows), places, times, strict=True)
    )
    assert rows(chunks) == [
        (
            nested(key_coder, value.value[0]),
            nested(value_coder, value.value[1]),
            nested(windows, place),
            millis(value),
        )
        for value in values
        for place in value.windows
    ]


@pytest.mark.parametrize("windows", [GLOBAL, INTERVAL], ids=["global", "interval"])
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("seed", range(4))
def test_encoded_elements_are_split_completely(kind: str, windows: coders.Coder, seed: int):
    rng = random.Random(f"{kind}{seed}")
    key_coder, value_coder, make = PAIRS[kind]
    coder = coders.TupleCoder([key_coder, value_coder])
    values = [windowed(rng, make(rng), windows) for _ in range(rng.choice([1, 30, 300]))]
    data = b"".join(encode(values, coder, windows))
    values = in_windows(values)
    elements = encode(values, coder, windows)
    elementwise = cutter(coder, windows, OutputKind.ELEMENTS)
    whole = cutter(coder, windows, OutputKind.KEYED, keyed_by_element=True)
    cut, keyed = [], []
    for part in in_messages(rng, data):
        for chunk in elementwise.split_chunks(part):
            assert isinstance(chunk, ElementChunk)
            assert chunk.count == len(chunk.ends)
            cut += slices(chunk.data, chunk.ends)
        keyed += whole.split_chunks(part)
    assert cut == elements
    assert rows(keyed) == [
        (b"", nested(coder, value.value), nested(windows, place), millis(value))
        for value in values
        for place in value.windows
    ]


def held(values: list[WindowedValue], windows: coders.Coder) -> int:
    """Returns the timestamp up to which the elements hold watermarks, in ms."""
    places = [nested(windows, place) for value in values for place in value.windows]
    return compute_hold_time(min(map(millis, values)), places)


@pytest.mark.parametrize("windows", [GLOBAL, INTERVAL], ids=["global", "interval"])
def test_chunks_have_earliest_event_time_on_request(windows: coders.Coder):
    rng = random.Random(3)
    values = [windowed(rng, "x" * rng.choice([10, 50_000]), windows) for _ in range(300)]
    cut = cutter(TEXT, windows, OutputKind.ELEMENTS, min_timestamp=True)
    data = b"".join(encode(values, TEXT, windows))
    chunks = [chunk for part in in_messages(rng, data) for chunk in cut.split_chunks(part)]
    assert len(chunks) > 3
    values = in_windows(values)
    begin = 0
    for chunk in chunks:
        own = values[begin : begin + chunk.count]
        assert chunk.min_timestamp == held(own, windows)
        begin += chunk.count
    assert begin == len(values)
    assert next(cutter(TEXT, windows, OutputKind.ELEMENTS).split_chunks(data)).min_timestamp is None


@pytest.mark.parametrize("windows", [GLOBAL, INTERVAL], ids=["global", "interval"])
@pytest.mark.parametrize("seed", range(4))
def test_chunks_have_one_window_on_request(windows: coders.Coder, seed: int):
    rng = random.Random(seed)
    values = [windowed(rng, "x" * rng.choice([0, 10, 50_000]), windows) for _ in range(100)]
    coder_id, protos = edge_of(TEXT, windows)
    edge = OutputEdge("sink", OutputKind.ELEMENTS, min_timestamp=True, windows=True)
    cut = create_chunker(edge, compile_edge_coder(coder_id, protos, "sink"))
    data = b"".join(encode(values, TEXT, windows))
    chunks = [chunk for part in in_messages(rng, data) for chunk in cut.split_chunks(part)]
    assert cut.incomplete_bytes == 0
    expected: dict[bytes, list[WindowedValue]] = {}
    for value in values:
        for place in value.windows:
            one = WindowedValue(value.value, value.timestamp, (place,), value.pane_info)
            expected.setdefault(nested(windows, place), []).append(one)
    for place, own in expected.items():
        mine = [chunk for chunk in chunks if chunk.window == place]
        assert b"".join(chunk.data for chunk in mine) == b"".join(encode(own, TEXT, windows))
        assert sum(chunk.count for chunk in mine) == len(own)
        assert min(chunk.min_timestamp for chunk in mine) == held(own, windows)
        for chunk in mine:
            assert len(chunk.ends) == chunk.count and chunk.ends[-1] == len(chunk.data)
    assert {chunk.window for chunk in chunks} == expected.keys()


@pytest.mark.parametrize("value_coder", [PREFIXED, VARINT], ids=["delimited", "other"])
def test_chunks_omit_event_times_by_default(value_coder: coders.Coder):
    coder = coders.TupleCoder([BYTES, value_coder])
    keyed = cutter(coder, GLOBAL, OutputKind.KEYED, timestamps=False)
    data = encode([in_the_global_window((b"k", 1))], coder, GLOBAL)[0]
    (chunk,) = keyed.split_chunks(data)
    assert chunk.timestamps is None
    assert chunk.windows == b""


def test_large_output_data_is_split_into_chunks_of_two_mebibytes():
    coder = coders.TupleCoder([BYTES, BYTES])
    value = in_the_global_window((b"k", b"v" * 1000))
    data = encode([value], coder, GLOBAL)[0] * 5000
    keyed = cutter(coder, GLOBAL, OutputKind.KEYED)
    chunks = list(keyed.split_chunks(data))
    assert sum(chunk.count for chunk in chunks) == 5000
    assert len(chunks) == 3
    assert max(len(chunk.value_data) for chunk in chunks) < (2 << 20) + 2000


@pytest.mark.parametrize("options", [{}, {"windows": True}], ids=["plain", "by window"])
@pytest.mark.parametrize("kind", OutputKind)
def test_encoded_elements_without_windows_are_dropped(kind: OutputKind, options: dict[str, bool]):
    coder = coders.TupleCoder([BYTES, BYTES])
    nowhere = WindowedValue((b"k", b"v"), Timestamp(1), ())
    somewhere = in_the_global_window((b"k", b"v"))
    coder_id, protos = edge_of(coder, GLOBAL)
    edge = OutputEdge("sink", kind, **options)
    cut = create_chunker(edge, compile_edge_coder(coder_id, protos, "sink"))
    data = b"".join(encode([nowhere] * 3, coder, GLOBAL))
    assert list(cut.split_chunks(data)) == []
    assert cut.incomplete_bytes == 0
    data = b"".join(encode([nowhere, somewhere, nowhere], coder, GLOBAL))
    assert [chunk.count for chunk in cut.split_chunks(data)] == [1]
    assert cut.incomplete_bytes == 0


def test_truncated_element_is_returned_as_remaining_data():
    coder = coders.TupleCoder([BYTES, BYTES])
    data = encode([in_the_global_window((b"k", b"v"))], coder, GLOBAL)[0]
    for kind in OutputKind:
        cut = cutter(coder, GLOBAL, kind)
        assert list(cut.split_chunks(data[:-1])) == []
        assert cut.incomplete_bytes == len(data) - 1


def test_encoded_iterables_of_unknown_length_are_skipped():
    coder = coders.IterableCoder(VARINT)
    values = [WindowedValue(range(n), 0, (window.GlobalWindow(),)) for n in (0, 3, 100_000)]
    for value in values:
        value.value = iter(value.value)
    elements = encode(values, coder, GLOBAL)
    cut = cutter(coder, GLOBAL, OutputKind.ELEMENTS)
    found = [
        each
        for chunk in cut.split_chunks(b"".join(elements))
        for each in slices(chunk.data, chunk.ends)
    ]
    assert found == elements


def test_coders_without_end_marker_are_reported_by_name():
    with pytest.raises(UnknownCoder, match=r"'sink'.*beam:coder:pickled_python:v1"):
        cutter(coders.TupleCoder([BYTES, coders.PickleCoder()]), GLOBAL, OutputKind.KEYED)
    with pytest.raises(UnknownCoder, match=r"'sink' have no keys"):
        cutter(BYTES, GLOBAL, OutputKind.KEYED)


def with_metadata(element: bytes, pane_at: int) -> bytes:
    """Returns an element in one byte of pane with metadata, as Java's coder encodes it."""
    metadata = beam_fn_api_pb2.Elements.ElementMetadata(
        drain=beam_fn_api_pb2.Elements.DrainMode.Enum.DRAINING, traceparent="00-abc-def-01"
    ).SerializeToString()
    pane = bytes((element[pane_at] | METADATA_BIT,))
    length = encode_varint(len(metadata))
    return b"".join((element[:pane_at], pane, length, metadata, element[pane_at + 1 :]))


def test_elements_between_stages_keep_their_metadata() -> None:
    pairs = coders.TupleCoder([VARINT, BYTES])
    values = [in_the_global_window((number, b"x" * number)) for number in range(40)]
    encoded = [with_metadata(one, WINDOWS_AT) for one in encode(values, pairs, GLOBAL)]
    data = b"".join(encoded)
    coder_id, protos = edge_of(pairs, GLOBAL)
    for options in ({}, {"windows": True}, {"min_timestamp": True}):
        edge = OutputEdge("sink", OutputKind.ELEMENTS, **options)
        chunker = create_chunker(edge, compile_edge_coder(coder_id, protos, "sink"))
        (chunk,) = chunker.split_chunks(data)
        assert isinstance(chunk, ElementChunk)
        assert slices(chunk.data, chunk.ends) == encoded
    chunks = list(cutter(pairs, GLOBAL, OutputKind.KEYED, whole_elements=True).split_chunks(data))
    assert [(key, value) for key, value, _, _ in rows(chunks)] == [
        (nested(VARINT, number), one) for number, one in enumerate(encoded)
    ]
