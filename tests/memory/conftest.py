"""Server with a memory limit, and its memory use."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from gauge import Gauge
from job_server import UNCHECKED, job_server
from jobs import Pipelines, pickle_by_value

LIMIT = 2 << 30
FLAGS = {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"]}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the part of the data."""
    parser.addoption("--part", type=float, default=1.0, help="which part of the data is used")


@pytest.fixture(scope="session")
def part(request: pytest.FixtureRequest) -> float:
    """Returns the used part of the data."""
    value: float = request.config.getoption("--part")
    return value


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture(scope="module")
def gauge() -> Iterator[Gauge]:
    """Yields a server with a limit of 2 GiB on two cores."""
    environment = {"BEAM_RUNNER_MEMORY": str(LIMIT), **UNCHECKED}
    flags = ["--spark-master-url=local[2,4]"]
    # Avoid pytest's folder: its path can be too long for sockets.
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *flags, environment=environment) as server,
        Gauge(server) as gauge,
    ):
        yield gauge


@pytest.fixture(params=FLAGS)
def pipelines(request: pytest.FixtureRequest, gauge: Gauge) -> Iterator[Pipelines]:
    """Yields pipelines in each environment, and checks that all processes together stay within the limit."""
    gauge.peak, gauge.parts = 0, []
    yield Pipelines(gauge.address, request.param, FLAGS[request.param])
    print(f"\npeak {gauge.peak >> 20} MiB: {gauge.parts}")
    assert 0 < gauge.peak < LIMIT, f"{gauge.peak >> 20} MiB: {gauge.parts}"
