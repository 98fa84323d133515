"""As on one machine, where executors die, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import Pipelines
from lives import Lives, lives
from rounds import ROUND_SECONDS, rage
from victims import Victim, bounded, unbounded

KINDS = ("executor", "executor", "worker", "java", "server")
MASTER = "--spark-master-url=local-cluster[2,1,1024]"

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_on_a_cluster(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, victim: Victim, seed: int
) -> None:
    with lives(temporary, tmp_path / "state", MASTER) as running:
        rage(running, pipelines_of(running, "embedded"), victim, KINDS, seed)
