"""Import path of the small runner, and fixtures shared by both suites."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_runner_worker.embedded import elements, par_do, runs

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def instant_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every run take no time. On a busy machine a slow run would shorten the next runs."""
    for module in (elements, par_do, runs):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
