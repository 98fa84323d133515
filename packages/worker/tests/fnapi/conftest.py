"""Fixtures of SDK harnesses: worker pools with threads, worker pools with processes, and boot commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from beam_runner_model.stages import Environment

from beam_runner_worker.fnapi.server import FnApiServer

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[4] / "tests" / "support"))

from harness_commands import boot_command
from tiny_host import Artifacts, Logs, TinyHost, create_job, external


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """Returns a command for PROCESS environments."""
    return boot_command(tmp_path)


@pytest.fixture
def process_pool(boot: Path) -> Iterator[Environment]:
    """Starts a worker pool whose workers are processes of a boot command."""
    address, server = BeamFnExternalWorkerPoolServicer.start(
        use_process=True, container_executable=str(boot)
    )
    yield external(address)
    server.stop(0).wait(5)


@pytest.fixture(scope="module")
def thread_pool() -> Iterator[Environment]:
    """Starts a worker pool whose workers are threads of this process, as with LOOPBACK."""
    address, server = BeamFnExternalWorkerPoolServicer.start()
    yield external(address)
    server.stop(0).wait(5)


@pytest.fixture
def serve(thread_pool: Environment) -> Iterator[object]:
    """Returns a function that makes an Fn API server for a pipeline of the test runner, with a
    thread pool. Closes it at the end.
    """
    servers = []

    def make(host: TinyHost, environment: Environment = thread_pool) -> FnApiServer:
        job = create_job(environment, environments=host.environment_ids)
        servers.append(FnApiServer(job, Artifacts(), Logs()))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
