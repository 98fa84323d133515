"""Tests of a job whose server stops and leaves the job to the next server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from beam_runner_model.jobs import JobState
from servers import NO_LOOP, Server, blocked
from small_jobs import LOOP_BYTES


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_bundle_running_at_server_stop_runs_once(tmp_path: Path, loop_bytes: int) -> None:
    server = Server(tmp_path, loop_bytes=loop_bytes)
    go_on = blocked(server)
    server.job.suspend()
    threading.Timer(0.3, go_on.set).start()
    server.wait()
    server.stop()
    again = Server(tmp_path, loop_bytes=loop_bytes)
    assert again.run() is JobState.DONE
    again.stop()
    before, after = (
        [_number(name) for name in one.spark.stages["see"].bundles] for one in (server, again)
    )
    assert len(before) == 1, "no further bundle is started"
    assert before[0] not in after


def _number(bundle_id: str) -> int:
    """Returns the number of a bundle, which precedes the attempt in its name."""
    return int(bundle_id.split("-")[-2])
