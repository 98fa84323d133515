"""Tests of a damaged job list: every loss is reported."""

from __future__ import annotations

import os
import secrets

import pytest

from .damages import run

COUNT = int(os.environ.get("BEAM_DAMAGES", "60"))
SEEDS = max(1, COUNT // 60)
"""Number of damaged job lists, with 60 damages each."""


@pytest.mark.timeout(60 + COUNT)
@pytest.mark.parametrize("number", range(SEEDS))
def test_job_list_with_damaged_byte_reports_every_loss(tmp_path, number):
    seed = int(os.environ.get("BEAM_DAMAGES_SEED", secrets.randbelow(2**32))) + number
    counts, silent = run(min(COUNT, 60), seed, tmp_path)
    print(f"seed {seed}: {dict(counts)}")
    assert not silent, f"with BEAM_DAMAGES_SEED={seed}: {silent}"
    assert counts["told"] > min(COUNT, 60) / 3
