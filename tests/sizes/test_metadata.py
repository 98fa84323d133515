"""Job of a terabyte: the test prints the size of the server's metadata, and the CPU time of its thread."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("metadata.py")
MAPS = 20_000
SHARDS = 2_000
MOST_SECONDS = 60
MOST_MEGABYTES = 200


@pytest.mark.slow
@pytest.mark.parametrize("way", ["section", "lanes"])
def test_server_metadata_of_a_terabyte_job_stays_within_limits(way: str) -> None:
    command = [sys.executable, "-P", str(PROGRAM), way, str(MAPS), str(SHARDS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    print(ended.stdout, end="")
    ran = json.loads(ended.stdout)
    assert ran["references"] >= MAPS + SHARDS
    assert ran["busy_seconds"] < MOST_SECONDS
    assert ran["grown_megabytes"] < MOST_MEGABYTES
