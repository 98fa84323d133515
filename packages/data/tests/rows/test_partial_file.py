"""Tests of a file that is partly local: requested rows are right, and no more data is fetched than is useful."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_storage.stores.ports import MissingFileError, StoreError
from faulty_store import FaultyLine, MemoryStore
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_data.rows import extents, partial_file
from beam_runner_data.rows.files import RowFile, RowFileWriter
from beam_runner_data.rows.partial_file import PartialFile
from beam_runner_data.rows.row import Row, RowKind

NAME = "1-2-1-0.arrow"
WORTH = 300
"""Number of bytes of a request, instead of a megabyte."""


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    little(monkeypatch)


def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_file, "REQUEST_BYTES", WORTH)
    monkeypatch.setattr(extents, "REQUEST_BYTES", WORTH)


def contents(number: int, size: int) -> bytes:
    return bytes([number % 256]) * size


def stored(folder: Path, sizes: list[int]) -> tuple[MemoryStore, int]:
    """Returns a store with a file of rows of these sizes, and the checksum of the file."""
    writer = RowFileWriter(folder / "written")
    for number, size in enumerate(sizes):
        writer.write(Row(0, RowKind.ELEMENTS, contents(number, size), 1))
    checksum = writer.close()
    store = MemoryStore()
    store.put_file(NAME, folder / "written")
    return store, checksum


def check(path: Path, checksum: int, sizes: list[int], rows: set[int]) -> None:
    file = RowFile(path, checksum)
    for row in rows:
        assert file.read_row(row)[1].to_pybytes() == contents(row, sizes[row])


@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=40),
    st.lists(st.sets(st.integers(0, 39), max_size=6), max_size=6),
    st.randoms(use_true_random=False),
)
def test_partial_file_returns_requested_rows_after_failed_fetches(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    asked: list[set[int]],
    random: object,
) -> None:
    folder = tmp_path_factory.mktemp("partial")
    store, checksum = stored(folder, sizes)
    line = FaultyLine(store, random, 0.3)  # type: ignore[arg-type]
    path = folder / NAME
    for numbers in asked:
        rows = {number % len(sizes) for number in numbers}
        while True:
            try:
                PartialFile(line, NAME, path).fetch_rows(rows)
                break
            except StoreError:
                assert not path.exists() or path.stat().st_size == len(store.files[NAME])
        check(path, checksum, sizes, rows)
    if PartialFile(store, NAME, path).is_complete:
        assert path.read_bytes() == store.files[NAME]


def test_partial_file_fetches_requested_rows_without_gaps_between_them(tmp_path: Path) -> None:
    sizes = [1000] * 50
    store, checksum = stored(tmp_path, sizes)
    file = PartialFile(store, NAME, tmp_path / NAME)
    directory = 50 * 32 + 16
    assert (
        file.fetch_rows({3, 4}) == directory + 2 * 1024 - 24
    )  # the bytes after the last row aren't needed
    assert file.fetch_rows({4}) == 0
    assert file.fetch_rows({3, 9}) == 1000
    check(tmp_path / NAME, checksum, sizes, {3, 4, 9})
    assert not file.is_complete
    with pytest.raises(Exception, match="the checksum of row 7 doesn't match"):
        check(tmp_path / NAME, checksum, sizes, {7})
    assert file.fetch_rows(range(50)) > 40_000
    assert file.is_complete
    assert file.fetch_rows({7}) == 0
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_partial_file_smaller_than_request_is_fetched_completely(tmp_path: Path) -> None:
    store, checksum = stored(tmp_path, [10, 20])
    file = PartialFile(store, NAME, tmp_path / NAME)
    assert file.fetch_rows({1}) == len(store.files[NAME])
    assert file.is_complete
    check(tmp_path / NAME, checksum, [10, 20], {0, 1})


@pytest.mark.parametrize("damage", [b"", b"no rows at all" * 100])
def test_partial_file_with_invalid_content_is_fetched_completely(
    tmp_path: Path, damage: bytes
) -> None:
    store = MemoryStore({NAME: damage})
    PartialFile(store, NAME, tmp_path / NAME).fetch_rows({0, 7})
    assert (tmp_path / NAME).read_bytes() == damage


def test_partial_file_request_for_missing_rows_is_refused_by_reader(tmp_path: Path) -> None:
    store, _ = stored(tmp_path, [1000] * 3)
    PartialFile(store, NAME, tmp_path / NAME).fetch_rows({3})
    assert (tmp_path / NAME).read_bytes() == store.files[NAME]


def test_complete_file_replaces_partial_file(tmp_path: Path) -> None:
    store, _ = stored(tmp_path, [1000] * 3)
    file = PartialFile(store, NAME, tmp_path / NAME)
    file.fetch_rows({0})
    assert file.fetch_all() == len(store.files[NAME])
    assert (tmp_path / NAME).read_bytes() == store.files[NAME]
    assert file.fetch_all() == 0


def test_partial_file_lost_by_store_raises_error_with_name_and_leaves_no_file(
    tmp_path: Path,
) -> None:
    with pytest.raises(MissingFileError, match=NAME):
        PartialFile(MemoryStore(), NAME, tmp_path / NAME).fetch_rows({0})
    assert list(tmp_path.iterdir()) == []
