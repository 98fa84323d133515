"""Tests that a booting harness imports Beam once, after its name is known."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys
from beam_runner_worker.fnapi import boot
print([name for name in ("apache_beam", "grpc") if name in sys.modules])
"""


def test_boot_program_imports_beam_only_after_setting_the_worker_id() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
