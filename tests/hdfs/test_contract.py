"""Tests that a real HDFS satisfies the contract of stores and of a sink of files, through a namenode and
through a mount table.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hdfs_servers import HdfsServers

_PACKAGES = Path(__file__).parents[2] / "packages"
_CONTRACTS = {
    "stores": _PACKAGES / "storage" / "tests" / "stores",
    "files": _PACKAGES / "io" / "tests" / "files" / "test_sink.py",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["hdfs", "viewfs"])
@pytest.mark.parametrize("contract", _CONTRACTS)
def test_hdfs_store_fulfills_the_store_contract(
    hdfs: HdfsServers, contract: str, kind: str
) -> None:
    base = hdfs.url if kind == "hdfs" else "viewfs://tests"
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-k",
            "hdfs]",
            "-q",
            "-rs",
            str(_CONTRACTS[contract]),
        ],
        env={**os.environ, **hdfs.environment, "BEAM_HDFS": f"{base}/jobs/{contract}"},
        capture_output=True,
        text=True,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0
    assert "NOT RUN" not in done.stdout
