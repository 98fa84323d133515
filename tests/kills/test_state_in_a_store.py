"""Whatever is killed whenever, where the next server has nothing of the last one but what is in a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import Pipelines
from lives import Lives, lives
from rounds import ROUND_SECONDS, rage
from victims import Victim, bounded, unbounded

KINDS = ("server", "worker", "server", "java")

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_the_next_server_goes_on(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, victim: Victim, seed: int
) -> None:
    store = f"file://{tmp_path}/store"
    with lives(temporary, f"{store}/state", f"--data-dir={store}/data") as running:
        rage(running, pipelines_of(running, "embedded"), victim, KINDS, seed)
        assert list(tmp_path.iterdir()) == [tmp_path / "store"]
