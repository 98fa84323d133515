"""Import path of the helper modules, and fixtures of all tests of the embedded harness."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_runner_embedded import elements, par_do, runs

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))


@pytest.fixture
def instant_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every run take no time. On a busy machine a slow run would shorten the next runs."""
    for module in (elements, par_do, runs):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
