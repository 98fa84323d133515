"""Fixtures of a job server with a fake runner, and of a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, Clock, FakeExecutor, pipeline_proto

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits() -> ServerLimits:
    return ServerLimits()


@pytest.fixture
def server(
    executor: FakeExecutor, clock: Clock, limits: ServerLimits, tmp_path: Path
) -> Iterator[JobServer]:
    with JobServer(
        executor, artifacts_dir=tmp_path / "artifacts", port=0, limits=limits, clock=clock
    ) as running:
        yield running


@pytest.fixture
def client(server: JobServer) -> Iterator[JobClient]:
    with JobClient(server.address, timeout=LIMIT) as connected:
        yield connected


@pytest.fixture
def pipeline() -> bytes:
    return pipeline_proto().SerializeToString()
