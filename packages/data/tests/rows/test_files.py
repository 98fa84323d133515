"""Tests of row files: a reader returns the written rows one by one, and refuses incomplete
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from beam_runner_model.chunks import KeyedChunk

from beam_runner_data.rows.columns import build_batch, decode_batch, encode_batch
from beam_runner_data.rows.errors import RowsError
from beam_runner_data.rows.files import RowFile, RowFileWriter, read_referenced_rows
from beam_runner_data.rows.refs import FileRows, InlineRows, KeyShare, RowsRef
from beam_runner_data.rows.row import Row, RowKind

ROWS = [
    Row(n % 3, RowKind.KEYED if n % 2 else RowKind.ELEMENTS, bytes([n]) * n, n) for n in range(10)
]
NAME = "made-on-demand/1-2-3.arrow"


def written(folder: Path) -> int:
    writer = RowFileWriter(folder / NAME)
    for row in ROWS:
        writer.write(row)
    return writer.close()


def read(folder: Path, ref: RowsRef) -> list[tuple[RowKind, bytes]]:
    return [(kind, bytes(memoryview(data))) for kind, data in read_referenced_rows(folder, ref)]


def plain(*rows: Row) -> list[tuple[RowKind, bytes]]:
    return [(row.kind, row.data) for row in rows]


@pytest.mark.parametrize("numbers", [range(10), (), (3,), (9, 0, 4, 4)])
def test_row_file_returns_rows_in_any_requested_order(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    ref = FileRows(NAME, tuple(numbers), checksum=written(tmp_path))
    assert read(tmp_path, ref) == plain(*(ROWS[n] for n in numbers))


@pytest.mark.parametrize("order", [range(10), range(9, -1, -1), (3, 0, 9, 1, 8, 2, 7, 5, 4, 6)])
def test_row_file_written_in_another_order_preserves_row_numbers(
    tmp_path: Path, order: Sequence[int]
) -> None:
    writer = RowFileWriter(tmp_path / NAME)
    for row in ROWS:
        writer.write(row)
    checksum = writer.close(order)
    assert read(tmp_path, FileRows(NAME, tuple(range(10)), checksum=checksum)) == plain(
        *(ROWS[n] for n in order)
    )
    places = RowFile(tmp_path / NAME, checksum).directory["at"].tolist()
    assert places == sorted(places)


def test_inline_rows_are_stored_in_their_reference(tmp_path: Path) -> None:
    ref = InlineRows("name", tuple((row.kind, row.data) for row in ROWS[2:5]))
    assert read(tmp_path, ref) == plain(*ROWS[2:5])


def test_discarded_row_file_is_deleted(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path / NAME)
    writer.write(ROWS[1])
    writer.discard()
    assert not (tmp_path / NAME).exists()


def test_row_file_discarded_after_close_is_deleted(tmp_path: Path) -> None:
    """A bundle can have a closed output when the next output fails."""
    writer = RowFileWriter(tmp_path / NAME)
    writer.write(ROWS[1])
    writer.close()
    writer.discard()
    assert not (tmp_path / NAME).exists()


def test_unclosed_row_file_cannot_be_read(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path / NAME)
    writer.write(ROWS[1])
    with pytest.raises(RowsError, match=f"{NAME} is damaged"):
        read(tmp_path, FileRows(NAME, (0,)))
    writer.discard()


def test_row_data_outlives_reader_and_file(tmp_path: Path) -> None:
    """Rows are mapped, not copied. Their buffers must keep the mapping alive."""
    ref = FileRows(NAME, tuple(range(10)), checksum=written(tmp_path))
    buffers = [data for _, data in read_referenced_rows(tmp_path, ref)]
    (tmp_path / NAME).unlink()
    assert [bytes(memoryview(data)) for data in buffers] == [row.data for row in ROWS]


def test_row_read_from_file_is_not_copied(tmp_path: Path) -> None:
    checksum = written(tmp_path)
    file = RowFile(tmp_path / NAME, checksum)
    for number in (0, 9):
        kind, data = file.read_row(number)
        assert (kind, data.to_pybytes()) == (ROWS[number].kind, ROWS[number].data)
        assert file.read_row(number)[1].address == data.address


@pytest.mark.parametrize("kind", ["flipped", "zeroed", "cut off"])
def test_row_file_with_damaged_byte_raises_error(tmp_path: Path, kind: str) -> None:
    """Padding between rows can have any value. Every other change is reported before the data is used."""
    ref = FileRows(NAME, tuple(range(10)), checksum=written(tmp_path))
    right = read(tmp_path, ref)
    path = tmp_path / NAME
    content = path.read_bytes()
    told = 0
    for at in range(len(content)):
        changed = bytearray(content)
        if kind == "flipped":
            changed[at] ^= 1 << at % 8
        elif kind == "zeroed":
            changed[at : at + 16] = bytes(len(changed[at : at + 16]))
        else:
            del changed[at:]
        path.write_bytes(changed)
        try:
            found = read(tmp_path, ref)
        except RowsError as error:
            told += f"the data file {path} is damaged" in str(error)
        else:
            assert found == right
    assert told > len(content) // 3


def test_row_file_with_other_rows_than_referenced_raises_error(tmp_path: Path) -> None:
    ref = FileRows(NAME, (0,), checksum=written(tmp_path))
    writer = RowFileWriter(tmp_path / NAME)
    for row in reversed(ROWS):
        writer.write(row)
    writer.close()
    with pytest.raises(RowsError, match="is damaged"):
        read(tmp_path, ref)


def test_missing_row_file_raises_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match=f"{tmp_path}/gone is missing: check that"):
        read(tmp_path, FileRows("gone", (0,)))


@pytest.mark.parametrize("is_inline", [True, False], ids=["inline", "file"])
def test_shares_of_keyed_rows_have_each_element_once(tmp_path: Path, is_inline: bool) -> None:
    keys = [b"%d" % number for number in range(20)]
    ends = [len(b"".join(keys[: number + 1])) for number in range(20)]
    batch = build_batch(KeyedChunk(b"".join(keys), ends, b"".join(keys), ends, b"w", [0] * 20))
    data = encode_batch(batch)
    writer = RowFileWriter(tmp_path / NAME)
    writer.write(Row(1, RowKind.KEYED, data, 20))
    whole: RowsRef = FileRows(NAME, (0,), checksum=writer.close())
    if is_inline:
        whole = InlineRows(NAME, ((RowKind.KEYED, data),))
    found = []
    for shard in range(50):
        share = KeyShare(shard, 50)
        for _, part in read_referenced_rows(tmp_path, attrs.evolve(whole, share=share)):
            own = decode_batch(part).column("key").to_pylist()
            assert own and all(share.contains_key(key) for key in own)
            found += own
    assert sorted(found) == sorted(keys)
