"""SDK harnesses for the tests: worker pools with threads, with processes, and boot commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_runner_api_pb2, endpoints_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from beam_runner_worker.records import Environment

sys.path.insert(0, str(Path(__file__).parent))


def external(endpoint: str) -> Environment:
    """An EXTERNAL environment."""
    payload = beam_runner_api_pb2.ExternalPayload(
        endpoint=endpoints_pb2.ApiServiceDescriptor(url=endpoint)
    )
    return Environment("beam:env:external:v1", payload.SerializeToString())


@pytest.fixture(scope="module")
def thread_pool() -> Iterator[Environment]:
    """A worker pool whose workers are threads of this process, as with LOOPBACK."""
    address, server = BeamFnExternalWorkerPoolServicer.start()
    yield external(address)
    server.stop(0).wait(5)
