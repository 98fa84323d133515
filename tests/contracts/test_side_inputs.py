"""Side inputs in files: what is written through the ports is what `SideInputReader` promises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from beam_runner_worker.ports import SideInputReader
from beam_runner_worker.records import KeyedChunk
from beam_spark_executor.plan import BufferKind, SideInputUse
from beam_spark_executor.task.files import Piece, RowFileWriter
from beam_spark_executor.task.outputs import row_port
from beam_spark_executor.task.side_inputs import FileSideInputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Entry = tuple[bytes, bytes, bytes]
"""Window, key and value."""
TRANSFORM, TAG = "ParDo", "side0"


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


def reader_of(folder: Path, kind: BufferKind, chunks: Sequence[KeyedChunk]) -> SideInputReader:
    """A reader of what two tasks have written to a side input, some of them nothing."""
    pieces = []
    for task in range(2):
        writer = RowFileWriter(folder, f"{task}.arrow", "buffer")
        port = row_port(kind, 8, task, writer.write)
        for chunk in chunks[task::2]:
            port.write(chunk)
        file = writer.close()
        if file is not None:
            pieces.append(Piece(file.path, 0, file.rows))
    return FileSideInputs([SideInputUse(TRANSFORM, TAG, "buffer")], {"buffer": pieces})


small = st.binary(min_size=0, max_size=2)
entries = st.lists(st.tuples(st.sampled_from([b"w1", b"w2"]), small, small), max_size=20)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(entries, max_size=5))
def test_multimaps(tmp_path: Path, batches: list[list[Entry]]) -> None:
    chunks = [chunk_of(batch, one_window=False) for batch in batches if batch]
    reader = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, chunks)
    expected: dict[bytes, dict[bytes, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for window, key, value in batch:
            expected[window][key].append(value)
    for window in (b"w1", b"w2", b"nowhere"):
        groups = list(reader.groups(TRANSFORM, TAG, window))
        assert {key: count for key, count, _ in groups} == {
            key: len(values) for key, values in expected[window].items()
        }
        for key, _, blob in groups:
            assert sorted(blob) == sorted(b"".join(expected[window][key]))
            assert reader.values(TRANSFORM, TAG, window, key) == blob
        assert reader.keys(TRANSFORM, TAG, window) == b"".join(key for key, _, _ in groups)
        assert reader.iterable(TRANSFORM, TAG, window) == b"".join(blob for _, _, blob in groups)
        assert reader.values(TRANSFORM, TAG, window, b"no such key") == b""


def test_iterables_keep_every_element_of_the_window(tmp_path: Path) -> None:
    batches = [[(b"w1", b"", b"a"), (b"w1", b"", b"b")], [(b"w2", b"", b"c")], [(b"w1", b"", b"d")]]
    chunks = [chunk_of(batch, one_window=True) for batch in batches]
    reader = reader_of(tmp_path, BufferKind.SIDE_ITERABLE, chunks)
    assert sorted(reader.iterable(TRANSFORM, TAG, b"w1")) == sorted(b"abd")
    assert reader.iterable(TRANSFORM, TAG, b"w2") == b"c"
    assert reader.iterable(TRANSFORM, TAG, b"w3") == b""


@pytest.mark.parametrize("kind", [BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP])
def test_a_side_input_of_nothing_is_empty(tmp_path: Path, kind: BufferKind) -> None:
    reader = reader_of(tmp_path, kind, [])
    assert reader.iterable(TRANSFORM, TAG, b"w") == b""
    assert reader.keys(TRANSFORM, TAG, b"w") == b""
    assert list(reader.groups(TRANSFORM, TAG, b"w")) == []


def test_the_answer_is_the_same_every_time(tmp_path: Path) -> None:
    """Pages are asked for one by one: they must be pages of the same order."""
    batch = [(b"w", bytes([n % 7]), bytes([n])) for n in range(50)]
    reader = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, [chunk_of(batch, one_window=True)])
    assert reader.keys(TRANSFORM, TAG, b"w") == reader.keys(TRANSFORM, TAG, b"w")
    again = reader_of(tmp_path, BufferKind.SIDE_MULTIMAP, [chunk_of(batch, one_window=True)])
    assert reader.iterable(TRANSFORM, TAG, b"w") == again.iterable(TRANSFORM, TAG, b"w")
