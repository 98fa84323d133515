"""Tests that a Spark task of a section releases the received parcels (batches of rows) at its end."""

from __future__ import annotations

import sys
from pathlib import Path

from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.shuffle_blocks import (
    ShuffleBlockHeader,
    ShuffleBlockKind,
    encode_block,
    encode_row,
)

from beam_runner_runtime.sections.inbox import SectionInbox


def test_closed_section_inbox_releases_received_blocks(tmp_path: Path) -> None:
    row = encode_row(Row(0, RowKind.ELEMENTS, b"element", 1))
    parcel = encode_block(ShuffleBlockHeader(ShuffleBlockKind.ROWS, 0, 0, count=1, size=7), row)
    known = sys.getrefcount(parcel)
    inbox = SectionInbox(tmp_path / "rows", budget=1 << 20)
    inbox.store_block(parcel)
    assert sys.getrefcount(parcel) > known
    inbox.close()
    assert sys.getrefcount(parcel) == known
