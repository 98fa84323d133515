"""Whatever happens to the journal's files, nothing that was committed is missing without a word."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest
from journal_damages import KILLED, left_folder, outcome, outcomes

from beam_spark_executor.journal.store import FILE

DAMAGES = int(os.environ.get("BEAM_DAMAGES", "60"))


@pytest.mark.timeout(3600)
def test_no_damage_is_silent(tmp_path: Path) -> None:
    seed = int(os.environ.get("BEAM_DAMAGES_SEED", secrets.randbelow(2**32)))
    found = list(outcomes(tmp_path, seed, DAMAGES))
    counts = Counter(result for _, result in found)
    print(f"seed {seed}: {dict(counts)}")
    silent = [what for what, result in found if result == "silent"]
    assert not silent, f"with BEAM_DAMAGES_SEED={seed}: {silent}"
    assert counts["told"] > DAMAGES // 4
    assert counts["whole"] > 0


@pytest.mark.parametrize("suffix", ["", "-wal", "-seal"])
def test_a_missing_file_of_a_killed_server_is_told(tmp_path: Path, suffix: str) -> None:
    folder = left_folder(tmp_path / "source", seed=1, end=KILLED)
    files = {name: data for name, data in folder.files.items() if name != FILE + suffix}
    assert len(files) < len(folder.files)
    assert outcome(tmp_path / "damaged", files, folder.right) != "silent"
