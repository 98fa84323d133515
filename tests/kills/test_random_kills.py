"""Tests that random kills lose no committed data and count no element twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import Pipelines
from lives import Lives, lives
from rounds import ROUND_SECONDS, rage
from victims import Victim, bounded, unbounded

KINDS = {
    "embedded": ("worker", "worker", "daemon", "java", "server"),
    "PROCESS": ("worker", "harness", "harness", "java", "server"),
}
KINDS_ON_A_CLUSTER = ("executor", "executor", "worker", "java", "server")
KINDS_WITH_A_STORE = ("server", "worker", "server", "java")
MASTER = "--spark-master-url=local-cluster[2,1,1024]"
PipelinesOf = Callable[[Lives, str], Pipelines]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(ROUND_SECONDS),
    pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__),
]


@pytest.mark.parametrize("environment", KINDS)
def test_random_kills_on_one_machine_keep_the_result_exact(
    temporary: Path,
    tmp_path: Path,
    pipelines_of: PipelinesOf,
    victim: Victim,
    environment: str,
    seed: int,
) -> None:
    with lives(temporary, tmp_path / "state") as running:
        rage(running, pipelines_of(running, environment), victim, KINDS[environment], seed)


def test_random_kills_on_a_cluster_keep_the_result_exact(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, victim: Victim, seed: int
) -> None:
    """Kills executors, in addition to servers and workers."""
    with lives(temporary, tmp_path / "state", MASTER) as running:
        rage(running, pipelines_of(running, "embedded"), victim, KINDS_ON_A_CLUSTER, seed)


def test_next_server_resumes_from_the_contents_of_a_store(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, victim: Victim, seed: int
) -> None:
    """The next server gets nothing from the previous server but the contents of a store."""
    store = f"file://{tmp_path}/store"
    with lives(temporary, f"{store}/state", f"--data-dir={store}/data") as running:
        rage(running, pipelines_of(running, "embedded"), victim, KINDS_WITH_A_STORE, seed)
        assert list(tmp_path.iterdir()) == [tmp_path / "store"]
