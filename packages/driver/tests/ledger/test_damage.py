"""Tests that damage of the journal's files loses no committed data silently."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest
from beam_runner_data.rows.refs import InlineRows
from beam_runner_data.rows.row import RowKind
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output
from beam_runner_model.facts import DataStatistics
from beam_runner_runtime.channel.messages import BundleReply
from beam_runner_storage.journal.store import FILE, JournalStore
from journal_damages import JOBS, KILLED, left_folder, outcome, outcomes

from beam_runner_driver.ledger.journal_codec import encode_entries

DAMAGES = int(os.environ.get("BEAM_DAMAGES", "60"))


@pytest.mark.timeout(3600)
def test_job_journal_with_damaged_byte_is_reported(tmp_path: Path) -> None:
    seed = int(os.environ.get("BEAM_DAMAGES_SEED", secrets.randbelow(2**32)))
    found = list(outcomes(tmp_path, seed, DAMAGES))
    counts = Counter(result for _, result in found)
    print(f"seed {seed}: {dict(counts)}")
    silent = [what for what, result in found if result == "silent"]
    assert not silent, f"with BEAM_DAMAGES_SEED={seed}: {silent}"
    # Some 40 % of the damages hit bytes that matter; with 60 damages, fewer than 25 % do in one run
    # of 40.
    assert counts["told"] > DAMAGES // 10
    assert counts["whole"] > 0


@pytest.mark.parametrize("suffix", ["", "-wal", "-seal"])
def test_missing_journal_file_of_killed_server_is_reported(tmp_path: Path, suffix: str) -> None:
    folder = left_folder(tmp_path / "source", seed=1, end=KILLED)
    files = {name: data for name, data in folder.files.items() if name != FILE + suffix}
    assert len(files) < len(folder.files)
    assert outcome(tmp_path / "damaged", files, folder.right) != "silent"


def test_damaged_inline_rows_in_journal_are_reported(tmp_path: Path) -> None:
    """Inline rows have no checksums. The journal has checksums of its entries and snapshots."""
    row = b"a row within its reference, " * 3
    ref = InlineRows("1-1", ((RowKind.ELEMENTS, row),))
    reply = BundleReply(BundleDone(1, 1, (Output("a", Data(ref, DataStatistics(1))),)), None, ())
    store = JournalStore(tmp_path / "source", durable=False)
    entry = encode_entries((reply,))
    store.get_journal(JOBS[0]).store_snapshot(b"snapshot: " + row)
    store.get_journal(JOBS[1]).store_snapshot(b"begin")
    store.get_journal(JOBS[1]).append_entries([entry])
    right = {job: store.get_journal(job).read_committed_data() for job in JOBS}
    store.close()
    files = {file.name: file.read_bytes() for file in (tmp_path / "source").iterdir()}
    assert outcome(tmp_path / "whole", files, right) == "whole"
    content = files[FILE]
    places = [at for at in range(len(content)) if content.startswith(row, at)]
    assert len(places) == 2
    for place in places:
        for at in (place, place + len(row) // 2):
            flipped = bytearray(content)
            flipped[at] ^= 1
            damaged = {**files, FILE: bytes(flipped)}
            assert outcome(tmp_path / f"damaged-{at}", damaged, right) == "told"
