"""Tests that small and large segments return the written entries, or report damage."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from beam_runner_engine.keyed.cells import CellId
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_data.rows.errors import SegmentError
from beam_runner_data.rows.refs import Segment
from beam_runner_data.state.records import (
    HIDES,
    ROW,
    DeletedSubkeys,
    Entry,
    encode_cell,
    merge_subkey_ranges,
)
from beam_runner_data.state.segments import SMALL_BYTES, open_segment, write_segment
from beam_runner_data.state.small import SmallSegment
from beam_runner_data.state.table import TableSegment, write_table

ENTRIES: list[Entry] = [
    (b"a", HIDES, b"", True, ()),
    (b"a", ROW, b"", False, b"1"),
    (b"a", ROW, b"x", True, b""),
    (b"b", ROW, b"", True, None),
    (b"c", HIDES, b"", False, ((b"1", b"2"), (b"3", None))),
]
LARGE: Entry = (b"d", ROW, b"", False, bytes(SMALL_BYTES + 1))


def write(folder: Path, entries: list[Entry]) -> Segment:
    segment = write_segment(folder, "s/1", iter(entries), net=7, level=2)
    assert segment is not None
    return segment


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_state_segment_round_trips(tmp_path: Path, last: list[Entry]) -> None:
    segment = write(tmp_path, [*ENTRIES, *last])
    assert segment == Segment("s/1", (tmp_path / "s/1").stat().st_size, 2, segment.checksum)
    reader = open_segment(tmp_path, segment)
    assert isinstance(reader, TableSegment if last else SmallSegment)
    assert list(reader.read_entries()) == [*ENTRIES, *last]
    assert reader.read_deleted_subkeys(b"a") == DeletedSubkeys(cleared=True)
    assert reader.read_deleted_subkeys(b"b") is None
    assert reader.read_deleted_subkeys(b"c") == DeletedSubkeys(ranges=((b"1", b"2"), (b"3", None)))
    assert reader.read_deleted_subkeys(b"nothing") is None
    assert reader.read_row(b"a", b"x") == (True, b"")
    assert reader.read_row(b"b", b"") == (True, None)
    assert reader.read_row(b"a", b"y") is None
    assert list(reader.read_rows(b"a", b"", None)) == [(b"", False, b"1"), (b"x", True, b"")]
    assert list(reader.read_rows(b"a", b"a", b"x")) == []
    assert list(reader.read_row_sizes(b"a", b"", None)) == [(b"", False, 17), (b"x", True, 17)]
    assert list(reader.read_row_sizes(b"b", b"", None)) == [(b"", True, None)]
    assert reader.sum_row_sizes(b"a", b"", None) == 34
    assert reader.sum_row_sizes(b"a", b"x", b"xx") == 17
    assert reader.sum_row_sizes(b"b", b"", None) == 0
    assert reader.net == 7
    reader.close()


def test_segment_size_selects_layout(tmp_path: Path) -> None:
    many: list[Entry] = [(b"c", ROW, b"%09d" % n, False, bytes(1000)) for n in range(1000)]
    for number, (count, kind) in enumerate([(100, SmallSegment), (1000, TableSegment)]):
        segment = write_segment(tmp_path, str(number), many[:count], net=None, level=0)
        assert segment is not None
        assert segment.size < 1.2 * count * 1010 + 65536
        reader = open_segment(tmp_path, segment)
        assert isinstance(reader, kind)
        assert reader.net == reader.weight == count * 1025
        reader.close()


def test_empty_segment_writes_no_file(tmp_path: Path) -> None:
    assert write_segment(tmp_path, "s", [], net=None, level=0) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_state_segment_with_existing_name_is_not_overwritten(
    tmp_path: Path, last: list[Entry]
) -> None:
    segment = write(tmp_path, [*ENTRIES, *last])
    with pytest.raises(FileExistsError):
        write(tmp_path, ENTRIES)
    assert list(open_segment(tmp_path, segment).read_entries()) == [*ENTRIES, *last]


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_failed_segment_write_leaves_no_file(tmp_path: Path, last: list[Entry]) -> None:
    unwritable: Entry = (b"e", ROW, b"", False, 1)
    with pytest.raises(TypeError):
        write(tmp_path, [*ENTRIES, *last, unwritable])
    assert not (tmp_path / "s/1").exists()


def test_missing_segment_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=f"{tmp_path}/gone is missing"):
        open_segment(tmp_path, Segment("gone", 10))
    (tmp_path / "folder").mkdir()
    with pytest.raises(SegmentError, match=f"{tmp_path}/folder can't be read"):
        open_segment(tmp_path, Segment("folder", 10))


ROWS: list[Entry] = [(b"r", ROW, b"%09d" % n, n % 3 == 0, b"%d" % n * 50) for n in range(2000)]


@pytest.mark.parametrize("kind", ["flipped", "zeroed"])
@pytest.mark.parametrize("more", [[], ROWS], ids=["small", "large"])
def test_state_segment_with_damaged_byte_raises_error(
    tmp_path: Path, more: list[Entry], kind: str
) -> None:
    """The damage is detected for every entry and every kind of lookup."""
    entries = [*ENTRIES, *more]
    segment = write(tmp_path, entries)
    path = tmp_path / segment.path
    content = path.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 400)):
        changed = bytearray(content)
        if kind == "flipped":
            changed[at] ^= 1 << at % 8
        else:
            changed[at : at + 64] = bytes(len(changed[at : at + 64]))
        if changed == content:
            continue
        path.write_bytes(changed)
        with pytest.raises(SegmentError, match=f"the state segment {path} is damaged"):
            list(open_segment(tmp_path, segment).read_entries())


def test_segment_lookup_reads_only_needed_bytes(tmp_path: Path) -> None:
    entries: list[Entry] = [(b"r", ROW, b"%09d" % n, False, bytes(1000)) for n in range(20_000)]
    segment = write(tmp_path, entries)
    content = bytearray((tmp_path / segment.path).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / segment.path).write_bytes(content)
    reader = open_segment(tmp_path, segment)
    assert reader.read_row(b"r", b"%09d" % 3) == (False, bytes(1000))
    assert reader.read_row(b"r", b"%09d" % 19_999) == (False, bytes(1000))
    assert reader.sum_row_sizes(b"r", b"", None) == 20_000 * 1025
    with pytest.raises(SegmentError, match="checksum .*doesn't match"):
        list(reader.read_rows(b"r", b"", None))
    reader.close()


@given(
    rows=st.dictionaries(st.binary(max_size=3), st.one_of(st.none(), st.binary(max_size=20))),
    start=st.binary(max_size=3),
    end=st.one_of(st.none(), st.binary(max_size=3)),
)
def test_segment_table_finds_same_entries_as_dictionary(
    rows: dict[bytes, bytes | None], start: bytes, end: bytes | None
) -> None:
    # The entry is between rows of many other cells, so that blocks end anywhere.
    others = [(cell, ROW, b"%d" % n, False, bytes(1000)) for cell in (b"a", b"c") for n in range(5)]
    mine: list[Entry] = [(b"b", ROW, subkey, False, data) for subkey, data in rows.items()]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        with path.open("xb") as file:
            checksum = write_table(file, sorted([*others, *mine], key=itemgetter(0, 1, 2)), None)
        table = TableSegment(path, checksum)
        wanted = sorted(s for s in rows if start <= s and (end is None or s < end))
        assert [s for s, _, _ in table.read_rows(b"b", start, end)] == wanted
        assert all(table.read_row(b"b", s) == (False, rows[s]) for s in rows)
        assert table.read_row(b"b", b"absent") is None
        weights = {s: weight for s, _, weight in table.read_row_sizes(b"b", start, end)}
        assert list(weights) == wanted
        assert table.sum_row_sizes(b"b", start, end) == sum(w or 0 for w in weights.values())
        table.close()


@pytest.mark.parametrize("last", [[], [LARGE]], ids=["small", "large"])
def test_truncated_segment_raises_error(tmp_path: Path, last: list[Entry]) -> None:
    segment = write(tmp_path, [*ENTRIES, *last])
    path = tmp_path / segment.path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SegmentError, match=f"{segment.size - 1} bytes; expected {segment.size}"):
        open_segment(tmp_path, segment)


def test_encoded_state_cell_ids_are_unique() -> None:
    parts = ["", "a", "b", "ab", "aab"]
    cells = [CellId(n, k.encode(), w.encode()) for n in parts for k in parts for w in parts]
    assert len({encode_cell(cell) for cell in cells}) == len(cells)


def test_overlapping_removed_ranges_are_merged() -> None:
    assert merge_subkey_ranges([(b"d", b"e"), (b"a", b"c"), (b"b", b"d")]) == ((b"a", b"e"),)
    assert merge_subkey_ranges([(b"b", b"a"), (b"a", b"a")]) == ()
    assert merge_subkey_ranges([(b"c", None), (b"a", b"b"), (b"d", b"e")]) == (
        (b"a", b"b"),
        (b"c", None),
    )
    assert merge_subkey_ranges([(b"a", b"c"), (b"a", b"b")]) == ((b"a", b"c"),)


def test_state_tombstones_contain_the_map_keys_of_removed_ranges() -> None:
    hides = DeletedSubkeys(ranges=((b"a", b"c"), (b"d", None)))
    assert [s for s in (b"", b"a", b"b", b"c", b"cc", b"d", b"e") if hides.contains_subkey(s)] == [
        *(b"a", b"b"),
        *(b"d", b"e"),
    ]
    assert hides.find_next_remaining_subkey(b"b") == b"c"
    assert hides.find_next_remaining_subkey(b"d") is None
    assert hides.merge_with(DeletedSubkeys(ranges=((b"c", b"d"),))) == DeletedSubkeys(
        ranges=((b"a", None),)
    )
    assert hides.merge_with(DeletedSubkeys(cleared=True)) == DeletedSubkeys(cleared=True)
    assert DeletedSubkeys(cleared=True).merge_with(hides) == DeletedSubkeys(cleared=True)
    assert hides.merge_with(None) == hides
