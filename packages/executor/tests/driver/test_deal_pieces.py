"""Dealing the rows of files to tasks: every row once, in order, about the same number of bytes to each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_spark_executor.driver.section import deal_pieces
from beam_spark_executor.task.files import Piece
from beam_spark_executor.task.rows import StoredFile

files = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 100)), max_size=8).map(
    lambda shapes: [
        StoredFile("buffer", f"file{n}", rows, rows * row_size)
        for n, (rows, row_size) in enumerate(shapes)
    ]
)
tasks = st.integers(1, 12)


def rows_of(pieces: tuple[Piece, ...]) -> list[tuple[str, int]]:
    return [(piece.path, row) for piece in pieces for row in range(piece.first, piece.last)]


@given(files, tasks)
def test_every_row_once_and_in_order(files: list[StoredFile], tasks: int) -> None:
    dealt = deal_pieces(files, tasks)
    rows = [row for pieces in dealt for row in rows_of(pieces)]
    assert rows == [(file.path, row) for file in files for row in range(file.rows)]


@given(files, tasks)
def test_never_more_tasks_than_asked_and_none_without_work(
    files: list[StoredFile], tasks: int
) -> None:
    dealt = deal_pieces(files, tasks)
    assert 1 <= len(dealt) <= tasks
    if files:
        assert all(rows_of(pieces) for pieces in dealt)


@given(files, tasks)
def test_no_piece_is_empty(files: list[StoredFile], tasks: int) -> None:
    assert all(piece.first < piece.last for pieces in deal_pieces(files, tasks) for piece in pieces)


@given(files, tasks)
def test_no_share_is_far_from_the_mean(files: list[StoredFile], tasks: int) -> None:
    if not files:
        return
    sizes = {file.path: file.size / file.rows for file in files}
    dealt = deal_pieces(files, tasks)
    share = sum(file.size for file in files) / max(1, min(tasks, sum(f.rows for f in files)))
    largest = max(sizes.values())
    for pieces in dealt:
        assert sum(sizes[path] for path, _ in rows_of(pieces)) <= share + 1.5 * largest + 1e-6


def test_equal_files_are_dealt_one_to_each() -> None:
    files = [StoredFile("buffer", f"file{n}", 4, 400) for n in range(3)]
    assert deal_pieces(files, 3) == tuple((Piece(f"file{n}", 0, 4),) for n in range(3))


def test_one_file_is_dealt_to_all() -> None:
    file = StoredFile("buffer", "file", 10, 1000)
    shares = [len(rows_of(pieces)) for pieces in deal_pieces([file], 4)]
    assert sum(shares) == 10 and set(shares) == {2, 3}


def test_nothing_is_one_task_without_pieces() -> None:
    assert deal_pieces([], 5) == ((),)
