"""Files of rows are read as they were written, in pieces, and only once they are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_spark_executor.task.files import Piece, RowFileWriter, read_pieces
from beam_spark_executor.task.rows import Row, RowKind, StoredFile

ROWS = [Row(n % 3, RowKind.KEYED if n % 2 else RowKind.ELEMENTS, bytes([n]) * n) for n in range(10)]


def write(folder: Path, rows: list[Row]) -> StoredFile | None:
    writer = RowFileWriter(folder / "made-on-demand", "part-0-1.arrow", "buffer")
    for row in rows:
        writer.write(row)
    return writer.close()


def read(*pieces: Piece) -> list[Row]:
    return [Row(shard, kind, data.to_pybytes()) for shard, kind, data in read_pieces(pieces)]


def test_there_and_back(tmp_path: Path) -> None:
    file = write(tmp_path, ROWS)
    assert file is not None
    assert (file.buffer_id, file.rows, file.size) == ("buffer", 10, sum(range(10)))
    assert read(Piece(file.path, 0, 10)) == ROWS
    assert read(Piece(file.path, 2, 4), Piece(file.path, 9, 10)) == [*ROWS[2:4], ROWS[9]]
    assert read() == []


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, []) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_given_up_is_gone(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path, "part-0-1.arrow", "buffer")
    writer.discard()
    writer.write(ROWS[1])
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_what_a_lost_task_left_behind_is_no_file_to_read(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path, "part-0-1.arrow", "buffer")
    writer.write(ROWS[1])
    (half,) = tmp_path.iterdir()
    with pytest.raises(Exception, match="Arrow|footer|file|small"):
        read(Piece(str(half), 0, 1))


def test_data_outlives_the_reading(tmp_path: Path) -> None:
    """Rows are mapped, not copied: their buffers must keep the mapping alive."""
    file = write(tmp_path, ROWS)
    assert file is not None
    buffers = [data for _, _, data in read_pieces([Piece(file.path, 0, 10)])]
    Path(file.path).unlink()
    assert [buffer.to_pybytes() for buffer in buffers] == [row.data for row in ROWS]
