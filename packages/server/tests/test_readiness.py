"""Tests of the server's readiness, from its start to the loss of its workers or its state store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beam_runner_model.readiness import Readiness
from beam_runner_storage.stores.spec import StoreSpec
from waiting import wait_until

from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
from beam_runner_server.plain import PlainProcesses

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunnerServer]:
    """Returns a server with its state in a store that isn't started yet."""
    found = RunnerServer(
        ServerSettings(
            job_port=0,
            state_dir=StoreSpec(f"file://{tmp_path}/state"),
            data=StoreSpec(str(tmp_path / "data")),
            platform=PlainProcesses(1),
        )
    )
    yield found
    found.stop()


def test_server_is_ready_from_start_until_workers_are_lost(server: RunnerServer) -> None:
    check = server.door.check_readiness
    server.serve()
    assert check() is Readiness.STARTING
    server.start()
    assert check() is Readiness.READY
    server.placement.kill()
    wait_until(lambda: check() is Readiness.NO_PLACEMENT)


def test_server_is_unready_while_its_state_store_refuses_files(
    server: RunnerServer, tmp_path: Path
) -> None:
    server.start()
    heartbeats, hidden = tmp_path / "state" / "servers", tmp_path / "hidden"
    heartbeats.rename(hidden)
    heartbeats.write_text("a file instead of the folder")
    wait_until(lambda: server.check_readiness() is Readiness.NO_STATE_STORE)
    heartbeats.unlink()
    hidden.rename(heartbeats)
    wait_until(lambda: server.check_readiness() is Readiness.READY)


def test_drained_server_is_unready(server: RunnerServer) -> None:
    server.start()
    server.drain_jobs()
    assert server.check_readiness() is Readiness.DRAINING
