"""Lets the tests import the small runner beside them, and what both suites share."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_runner_worker.embedded import elements, par_do, runs

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no run take any time: on a busy machine each may take long, and the next ones are short then."""
    for module in (elements, par_do, runs):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
