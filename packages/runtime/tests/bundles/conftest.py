"""Fixtures with worker processes that serve lanes (connections to the server)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from served_process import Serve, serving

from beam_runner_runtime.bundles import progress_reporter as telling_module
from beam_runner_runtime.tuning import TUNING


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Returns a function that makes worker processes serving a lane."""
    monkeypatch.setattr(telling_module, "TUNING", attrs.evolve(TUNING, progress_seconds=0.02))
    with serving(tmp_path, monkeypatch) as make:
        yield make
