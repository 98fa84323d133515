"""Tests that `SideInputReader` returns the side inputs that were written through the ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, count
from pathlib import Path

import attrs
import pytest
from beam_runner_data.rows import written
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.refs import FileRows, InlineRows
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.side_inputs import side_data, side_index, side_index_build, side_inputs
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_engine.scheduler.commands import SideInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind, BufferPlan, SideInputUse
from beam_runner_model.chunks import KeyedChunk
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import OpaqueWindows
from beam_runner_model.windows import OpaqueWindow, Window
from beam_runner_worker.ports import SideInputReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Entry = tuple[bytes, bytes, bytes]
"""Window, key and value."""
TRANSFORM, TAG = "ParDo", "side0"
NUMBERS = count()


def chunk_of(entries: Sequence[Entry], *, one_window: bool) -> KeyedChunk:
    windows = [window for window, _, _ in entries]
    keys = [key for _, key, _ in entries]
    values = [value for _, _, value in entries]
    return KeyedChunk(
        b"".join(keys),
        list(accumulate(map(len, keys))),
        b"".join(values),
        list(accumulate(map(len, values))),
        windows[0] if one_window else windows,
        None,
    )


W1, W2, NOWHERE = (encode_window(OpaqueWindow(w, 9)) for w in (b"w1", b"w2", b"nowhere"))
BUFFER = BufferPlan("buffer", BufferKind.SIDE_MULTIMAP, WindowingStrategy(OpaqueWindows("any")))


def reader_of(folder: Path, kind: BufferKind, chunks: Sequence[KeyedChunk]) -> SideInputReader:
    """Returns a reader of the outputs of two bundles for a side input, some of them empty."""
    shown: dict[Window, list[Data]] = {}
    for bundle in range(2):
        name = f"{next(NUMBERS)}"
        output = RowBufferWriter(attrs.evolve(BUFFER, kind=kind), 8, folder, name)
        port = create_row_converter(kind, 8, bundle, output.write)
        for chunk in chunks[bundle::2]:
            port.write(chunk)
        for out in output.close():
            assert out.collection == "buffer"
            assert isinstance(out.data.ref, FileRows if written.INLINE_BYTES < 0 else InlineRows)
            assert out.data.facts.windows is not None
            for window in out.data.facts.windows:
                shown.setdefault(window, []).append(out.data)
    reader = BundleSideInputs([SideInputUse(TRANSFORM, TAG, "buffer")], folder)
    name = f"{TRANSFORM}:{TAG}"
    reader.set_visible_data(
        [SideInput(name, window, tuple(data)) for window, data in shown.items()]
    )
    return reader


@pytest.fixture(autouse=True, params=["files", "inline"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "files":
        monkeypatch.setattr(written, "INLINE_BYTES", -1)


@pytest.fixture(autouse=True, params=["in memory", "indexed"])
def _how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces limits, so that an index has many small partitions, and values are split into many
    small chunks.
    """
    if request.param == "indexed":
        monkeypatch.setattr(side_inputs, "IN_MEMORY_BYTES", -1)
        monkeypatch.setattr(side_index_build, "PARTITION_BYTES", 300)
        monkeypatch.setattr(side_index, "PIECE_BYTES", 3)
        monkeypatch.setattr(side_data, "PIECE_BYTES", 3)


def whole(values: bytes | ValuePieces) -> bytes:
    """Returns all data, from a single read."""
    if isinstance(values, bytes):
        return values
    pieces = [values.piece(number) for number in range(values.pieces)]
    assert b"".join(pieces) == b"".join(map(values.piece, range(values.pieces)))
    assert sum(map(len, pieces)) <= len(values)
    return b"".join(pieces)


def groups_in(data: bytes) -> list[tuple[bytes, int, bytes]]:
    """Returns keys, counts and values of groups with length-prefixed keys and values."""
    groups, position = [], 0
    while position < len(data):
        middle = position + 1 + data[position]
        key, count = data[position:middle], int.from_bytes(data[middle : middle + 4])
        position = begin = middle + 4
        for _ in range(count):
            position += 1 + data[position]
        groups.append((key, count, data[begin:position]))
    return groups


small = st.binary(min_size=0, max_size=2).map(lambda data: bytes([len(data)]) + data)
entries = st.lists(st.tuples(st.sampled_from([W1, W2]), small, small), max_size=20)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(entries, max_size=5))
def test_multimap_side_input_returns_the_values_of_each_key(
    tmp_path: Path, batches: list[list[Entry]]
) -> None:
    chunks = [chunk_of(batch, one_window=False) for batch in batches if batch]
    reader = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, chunks)
    expected: dict[bytes, dict[bytes, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for window, key, value in batch:
            expected[window][key].append(value)
    for window in (W1, W2, NOWHERE):
        groups = groups_in(whole(reader.read_groups(TRANSFORM, TAG, window)))
        assert {key: count for key, count, _ in groups} == {
            key: len(values) for key, values in expected[window].items()
        }
        for key, _, blob in groups:
            assert sorted(blob) == sorted(b"".join(expected[window][key]))
            assert whole(reader.read_values(TRANSFORM, TAG, window, key)) == blob
        keys = b"".join(key for key, _, _ in groups)
        assert whole(reader.read_keys(TRANSFORM, TAG, window)) == keys
        assert reader.read_values(TRANSFORM, TAG, window, b"no such key") == b""


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.tuples(st.sampled_from([W1, W2]), small), max_size=9), max_size=4)
)
def test_iterable_side_input_returns_all_values(
    tmp_path: Path, batches: list[list[tuple[bytes, bytes]]]
) -> None:
    rows = [[(window, b"", value) for window, value in batch] for batch in batches if batch]
    chunks = [chunk_of(batch, one_window=False) for batch in rows]
    reader = reader_of(tmp_path, BufferKind.SIDE_ITERABLE, chunks)
    # In the order of commits: the first bundle writes every other chunk.
    in_order = [entry for batch in (*rows[::2], *rows[1::2]) for entry in batch]
    for window in (W1, W2, NOWHERE):
        expected = b"".join(value for where, _, value in in_order if where == window)
        assert whole(reader.read_iterable(TRANSFORM, TAG, window)) == expected


@pytest.mark.parametrize("kind", [BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP])
def test_side_input_without_elements_is_empty(tmp_path: Path, kind: BufferKind) -> None:
    reader = reader_of(tmp_path, kind, [])
    assert reader.read_iterable(TRANSFORM, TAG, b"w") == b""
    assert whole(reader.read_keys(TRANSFORM, TAG, b"w")) == b""
    assert whole(reader.read_groups(TRANSFORM, TAG, b"w")) == b""


def test_side_input_pages_have_the_same_order_every_time(tmp_path: Path) -> None:
    """Clients request pages one by one, so all pages must have the same order."""
    batch = [(W1, bytes([n % 7]), bytes([n])) for n in range(50)]
    reader = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, [chunk_of(batch, one_window=True)])
    keys = whole(reader.read_keys(TRANSFORM, TAG, W1))
    assert keys == whole(reader.read_keys(TRANSFORM, TAG, W1))
    again = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, [chunk_of(batch, one_window=True)])
    assert whole(again.read_keys(TRANSFORM, TAG, W1)) == keys
