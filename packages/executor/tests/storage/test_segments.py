"""Segments give back what was written, small ones and large ones alike, or say what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from beam_runner_engine.keyed.cells import CellId

from beam_spark_executor.storage.refs import Segment
from beam_spark_executor.storage.segments import SMALL_BYTES, open_segment, write_segment
from beam_spark_executor.storage.state_records import (
    HIDES,
    ROW,
    Entry,
    Hides,
    SegmentError,
    coalesce,
    encode_cell,
)
from beam_spark_executor.storage.state_small import SmallSegment
from beam_spark_executor.storage.state_table import TableSegment

ENTRIES: list[Entry] = [
    (b"a", HIDES, b"", True, ()),
    (b"a", ROW, b"", False, b"1"),
    (b"a", ROW, b"x", True, b""),
    (b"b", ROW, b"", True, None),
    (b"c", HIDES, b"", False, ((b"1", b"2"), (b"3", None))),
]
LARGE: Entry = (b"d", ROW, b"", False, bytes(SMALL_BYTES + 1))


def write(folder: Path, entries: list[Entry], *, durable: bool = False) -> Segment:
    segment = write_segment(folder, "s/1", iter(entries), net=7, level=2, durable=durable)
    assert segment is not None
    return segment


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_there_and_back(tmp_path: Path, last: list[Entry]) -> None:
    segment = write(tmp_path, [*ENTRIES, *last])
    assert segment == Segment("s/1", (tmp_path / "s/1").stat().st_size, 2)
    reader = open_segment(tmp_path, segment)
    assert isinstance(reader, TableSegment if last else SmallSegment)
    assert list(reader.entries()) == [*ENTRIES, *last]
    assert reader.hides(b"a") == Hides(cleared=True)
    assert reader.hides(b"b") is None
    assert reader.hides(b"c") == Hides(ranges=((b"1", b"2"), (b"3", None)))
    assert reader.hides(b"nothing") is None
    assert reader.row(b"a", b"x") == (True, b"")
    assert reader.row(b"b", b"") == (True, None)
    assert reader.row(b"a", b"y") is None
    assert list(reader.rows(b"a", b"", None)) == [(b"", False, b"1"), (b"x", True, b"")]
    assert list(reader.rows(b"a", b"a", b"x")) == []
    assert list(reader.weights(b"a", b"", None)) == [(b"", False, 17), (b"x", True, 17)]
    assert list(reader.weights(b"b", b"", None)) == [(b"", True, None)]
    assert reader.weight_between(b"a", b"", None) == 34
    assert reader.weight_between(b"a", b"x", b"xx") == 17
    assert reader.weight_between(b"b", b"", None) == 0
    assert reader.net == 7
    reader.close()


def test_the_size_decides_how_a_segment_is_written(tmp_path: Path) -> None:
    many: list[Entry] = [(b"c", ROW, b"%09d" % n, False, bytes(1000)) for n in range(1000)]
    for number, (count, kind) in enumerate([(100, SmallSegment), (1000, TableSegment)]):
        segment = write_segment(
            tmp_path, str(number), many[:count], net=None, level=0, durable=True
        )
        assert segment is not None
        assert segment.size < 1.2 * count * 1010 + 65536
        reader = open_segment(tmp_path, segment)
        assert isinstance(reader, kind)
        assert reader.net == reader.weight == count * 1025
        reader.close()


def test_nothing_is_no_file(tmp_path: Path) -> None:
    assert write_segment(tmp_path, "s", [], net=None, level=0, durable=True) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_a_name_is_used_once(tmp_path: Path, last: list[Entry]) -> None:
    segment = write(tmp_path, [*ENTRIES, *last], durable=True)
    with pytest.raises(FileExistsError):
        write(tmp_path, ENTRIES)
    assert list(open_segment(tmp_path, segment).entries()) == [*ENTRIES, *last]


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_what_fails_leaves_no_file(tmp_path: Path, last: list[Entry]) -> None:
    unwritable: Entry = (b"e", ROW, b"", False, 1)
    with pytest.raises(TypeError):
        write(tmp_path, [*ENTRIES, *last, unwritable])
    assert not (tmp_path / "s/1").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=f"{tmp_path}/gone is missing"):
        open_segment(tmp_path, Segment("gone", 10))
    (tmp_path / "folder").mkdir()
    with pytest.raises(SegmentError, match=f"{tmp_path}/folder can't be read"):
        open_segment(tmp_path, Segment("folder", 10))


def flip(position: int) -> Callable[[bytearray], None]:
    def damage(contents: bytearray) -> None:
        contents[position] ^= 1

    return damage


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
@pytest.mark.parametrize("position", [0, 17, 40, 100, -10, -100])
def test_a_flipped_bit_is_an_error_or_harmless(
    tmp_path: Path, last: list[Entry], position: int
) -> None:
    read = read_damaged(tmp_path, [*ENTRIES, *last], flip(position))
    if read is None:
        return
    assert last, "every bit of a small segment counts"
    assert read == [*ENTRIES, *last]


def test_data_has_checksums(tmp_path: Path) -> None:
    def damage(contents: bytearray) -> None:
        contents[contents.index(b"needle")] ^= 1

    row: Entry = (b"c", ROW, b"", False, b"needle")
    hides: Entry = (b"c", HIDES, b"", False, ((b"needle", b"o"),))
    for entries in ([row], [row, LARGE], [hides, LARGE]):
        assert read_damaged(tmp_path, entries, damage) is None
        (tmp_path / "s/1").unlink()


def test_every_page_but_its_data_is_checked_by_sqlite(tmp_path: Path) -> None:
    rows: list[Entry] = [(b"c", ROW, b"%09d" % n, False, bytes(100)) for n in range(5000)]

    def damage(contents: bytearray) -> None:
        for page in range(2 * 16384, len(contents), 16384):
            contents[page : page + 64] = bytes(64)

    assert read_damaged(tmp_path, rows, damage) is None


def read_damaged(
    folder: Path, entries: list[Entry], damage: Callable[[bytearray], None]
) -> list[Entry] | None:
    """What is read from a damaged file; None if it is refused, by its name."""
    segment = write(folder, entries)
    path = folder / segment.path
    contents = bytearray(path.read_bytes())
    damage(contents)
    path.write_bytes(contents)
    try:
        return list(open_segment(folder, segment).entries())
    except SegmentError as error:
        if f"The state segment {path} is damaged" not in str(error):
            raise
        return None


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_a_file_that_was_cut_is_damaged(tmp_path: Path, last: list[Entry]) -> None:
    segment = write(tmp_path, [*ENTRIES, *last])
    path = tmp_path / segment.path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SegmentError, match=f"{segment.size - 1} bytes instead of {segment.size}"):
        open_segment(tmp_path, segment)


def test_cells_are_encoded_apart() -> None:
    parts = ["", "a", "b", "ab", "aab"]
    cells = [CellId(n, k.encode(), w.encode()) for n in parts for k in parts for w in parts]
    assert len({encode_cell(cell) for cell in cells}) == len(cells)


def test_ranges_are_brought_apart() -> None:
    assert coalesce([(b"d", b"e"), (b"a", b"c"), (b"b", b"d")]) == ((b"a", b"e"),)
    assert coalesce([(b"b", b"a"), (b"a", b"a")]) == ()
    assert coalesce([(b"c", None), (b"a", b"b"), (b"d", b"e")]) == ((b"a", b"b"), (b"c", None))
    assert coalesce([(b"a", b"c"), (b"a", b"b")]) == ((b"a", b"c"),)


def test_what_ranges_hide() -> None:
    hides = Hides(ranges=((b"a", b"c"), (b"d", None)))
    assert [s for s in (b"", b"a", b"b", b"c", b"cc", b"d", b"e") if hides.hides(s)] == [
        *(b"a", b"b"),
        *(b"d", b"e"),
    ]
    assert hides.end_of_range(b"b") == b"c"
    assert hides.end_of_range(b"d") is None
    assert hides.over(Hides(ranges=((b"c", b"d"),))) == Hides(ranges=((b"a", None),))
    assert hides.over(Hides(cleared=True)) == Hides(cleared=True)
    assert Hides(cleared=True).over(hides) == Hides(cleared=True)
    assert hides.over(None) == hides
