"""Measurement of the time from a server restart until several streams make progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gauges import Spent, arrivals
from jobs import Pipelines
from lives import Lives, lives
from steady import WINDOW, Stream, steady
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STREAMS = 3
RATE = 100
SECONDS = 600
MOVING_SECONDS = 120
CPU_SECONDS = 15.0
"""Limit in CPU seconds; the restart takes 10 s on a busy machine."""


def test_restarted_server_resumes_three_streams(
    temporary: Path, tmp_path: Path, pipelines_of: Callable[[Lives, str], Pipelines]
) -> None:
    with lives(temporary, tmp_path / "state") as running:
        pipelines = pipelines_of(running, "embedded")
        start = (int(time.time()) // WINDOW + 1) * WINDOW
        streams = [Stream(start, RATE, SECONDS, tmp_path / f"late{n}") for n in range(STREAMS)]
        for stream in streams:
            pipeline = pipelines.new("--streaming")
            steady(pipeline, stream)
            pipelines.job(pipeline)
        wait_until(lambda: _moved(streams, 0.0), MOVING_SECONDS, "all streams move")
        assert running.kill("server")
        running.wait_until_gone()
        killed = time.time()
        running.go_on()
        with Spent(running, since_birth=True) as spent:
            wait_until(lambda: _moved(streams, killed), MOVING_SECONDS, "all streams move again")
        told = f"{spent.seconds:.1f} s of CPU, {time.time() - killed:.1f} s"
        print(f"RESTART with {STREAMS} streams: {told}", flush=True)
        assert spent.seconds <= CPU_SECONDS


def _moved(streams: list[Stream], since: float) -> bool:
    """Returns True if a number of each stream has reached its end since this time."""
    return all(
        stream.latencies.exists() and any(one.at > since for one in arrivals(stream.latencies))
        for stream in streams
    )
