"""Server with separate executors, apart from the server's Java process, for tests that kill executors."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _on_a_cluster(request: pytest.FixtureRequest) -> None:
    master = request.config.getoption("--spark-master-url") or ""
    if not master.startswith("local-cluster["):
        pytest.fail("run these with --spark-master-url='local-cluster[3,1,1024]'")
