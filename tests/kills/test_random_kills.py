"""Whatever is killed whenever: nothing that was committed is lost, and nothing counts twice."""

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

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
@pytest.mark.parametrize("environment", KINDS)
@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_on_one_machine(
    temporary: Path,
    tmp_path: Path,
    pipelines_of: PipelinesOf,
    victim: Victim,
    environment: str,
    seed: int,
) -> None:
    with lives(temporary, tmp_path / "state") as running:
        rage(running, pipelines_of(running, environment), victim, KINDS[environment], seed)
