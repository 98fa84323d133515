"""Tests of segments from which an update dropped states."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import attrs
import pytest
from beam_runner_engine.keyed.cells import CellId

from beam_runner_data.rows.refs import Segment
from beam_runner_data.state.compaction import CompactionPlan, compact_segments
from beam_runner_data.state.records import (
    ROW,
    decode_cell_name,
    decode_values,
    encode_cell,
    encode_values,
)
from beam_runner_data.state.segments import open_segment, write_segment

KEPT, DROPPED = (encode_cell(CellId(name, b"key", b"window")) for name in ("kept", "dropped"))


@pytest.fixture(params=[1, 2_000], ids=["small", "table"])
def segment(request: pytest.FixtureRequest, tmp_path: Path) -> Segment:
    rows = [
        (cell, ROW, b"%04d" % number, True, encode_values((f"{name} {number}",)))
        for name, cell in sorted((("kept", KEPT), ("dropped", DROPPED)), key=lambda one: one[1])
        for number in range(request.param)
    ]
    written = write_segment(tmp_path, "one", rows, net=None, level=0)
    assert written is not None
    return written


def test_state_name_is_decoded_from_encoded_cell() -> None:
    assert [decode_cell_name(cell) for cell in (KEPT, DROPPED)] == ["kept", "dropped"]
    assert decode_cell_name(encode_cell(CellId("~agenda", b"", b""))) == "~agenda"


def test_state_segment_reader_skips_dropped_states(segment: Segment, tmp_path: Path) -> None:
    masked = attrs.evolve(segment, masked=("dropped",))
    with (
        closing(open_segment(tmp_path, segment)) as whole,
        closing(open_segment(tmp_path, masked)) as reader,
    ):
        for cell, is_kept in ((KEPT, True), (DROPPED, False)):
            assert (whole.read_row(cell, b"0000") is not None) is True
            assert (reader.read_row(cell, b"0000") is not None) is is_kept
            assert bool(list(reader.read_rows(cell, b"", None))) is is_kept
            assert bool(list(reader.read_row_sizes(cell, b"", None))) is is_kept
            assert bool(reader.sum_row_sizes(cell, b"", None)) is is_kept
            assert reader.read_deleted_subkeys(cell) is None
        assert {entry[0] for entry in reader.read_entries()} == {KEPT}


def test_compaction_removes_data_of_dropped_state(segment: Segment, tmp_path: Path) -> None:
    masked = attrs.evolve(segment, masked=("dropped",))
    later = write_segment(
        tmp_path,
        "two",
        [(DROPPED, ROW, b"0001", True, encode_values(("added again",)))],
        net=None,
        level=0,
    )
    assert later is not None
    merged = compact_segments(tmp_path, CompactionPlan((masked, later), oldest=True), "all").merged
    assert merged is not None
    assert merged.masked == ()
    with closing(open_segment(tmp_path, merged)) as reader:
        rows = list(reader.read_rows(DROPPED, b"", None))
        assert [(subkey, decode_values((data or b"",))) for subkey, _, data in rows] == [
            (b"0001", ("added again",))
        ]
        assert reader.read_row(KEPT, b"0000") is not None
