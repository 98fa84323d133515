"""Servers of running jobs, with threads as workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_runtime.shutdown.limits import LIMITS
from servers import Server


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Yields a function that stops the last server and starts the next one in the same folder."""
    monkeypatch.setattr(LIMITS, "teardown_seconds", 2.0)
    monkeypatch.setattr(LIMITS, "abort_seconds", 1.0)
    servers: list[Server] = []

    def make(**more: Any) -> Server:
        for server in servers:
            server.stop()
        servers.append(Server(tmp_path, **more))
        return servers[-1]

    yield make
    servers[-1].stop()
