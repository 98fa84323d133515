"""A real HDFS fulfills the contract of stores, through a namenode and through a mount table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hdfs_servers import HdfsServers

_CONTRACT = Path(__file__).parents[2] / "packages" / "storage" / "tests" / "stores"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["hdfs", "viewfs"])
def test_hdfs_store_fulfills_the_store_contract(hdfs: HdfsServers, kind: str) -> None:
    base = hdfs.url if kind == "hdfs" else "viewfs://tests"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-k", "hdfs]", "-q", "-rs", str(_CONTRACT)],
        env={**os.environ, **hdfs.environment, "BEAM_HDFS": f"{base}/jobs/contract"},
        capture_output=True,
        text=True,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0
    assert "NOT RUN" not in done.stdout
