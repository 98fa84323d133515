"""The list of jobs, damaged: what is not whole is told."""

from __future__ import annotations

import os
import secrets

import pytest

from .damages import run

COUNT = int(os.environ.get("BEAM_DAMAGES", "60"))


@pytest.mark.timeout(60 + COUNT)
def test_no_damage_is_silent(tmp_path):
    seed = int(os.environ.get("BEAM_DAMAGES_SEED", secrets.randbelow(2**32)))
    counts, silent = run(COUNT, seed, tmp_path)
    print(f"seed {seed}: {dict(counts)}")
    assert not silent, f"seed {seed}"
    assert counts["told"] > COUNT / 3
