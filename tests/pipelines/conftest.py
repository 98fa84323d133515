"""One server for all tests of this folder, and pipelines in every environment."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from harness_commands import boot_command, environment_flags
from job_server import FAILING_SOON, PROGRAM, WITHOUT_LOOP, JobServerProcess, job_server
from jobs import Pipelines, pickle_by_value
from server_lives import ServerLives, server_lives

ENVIRONMENTS = ("embedded", "LOOPBACK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the flags of the test server."""
    parser.addoption(
        "--spark-master-url", help="where Spark runs; without it the server's own default"
    )
    parser.addoption(
        "--without-spark",
        action="store_true",
        help="run bundles in plain processes of this machine",
    )
    parser.addoption("--data-dir", help="where data between stages lies")
    parser.addoption("--bulk", help="whether stages of bounded data are run as Spark's own jobs")
    parser.addoption(
        "--without-loop", action="store_true", help="run bundles on lanes, whatever their size"
    )
    parser.addoption(
        "--promised-times",
        action="store_true",
        help="judge durations as the documents promise them; needs a machine without other work",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the pytest mark of tests that CI runs with only some of the parameters."""
    config.addinivalue_line("markers", "slow_in(parameter, ...): slow with these parameters")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks a test as slow for the parameters, mostly environments, that the test's mark
    ``slow_in`` names.
    """
    for item in items:
        mark = item.get_closest_marker("slow_in")
        if mark and isinstance(item, pytest.Function):
            values = {str(value) for value in item.callspec.params.values()}
            if values & set(mark.args):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def placement(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Returns the server flags that select the system for worker processes (Spark or plain
    processes).
    """
    if request.config.getoption("--without-spark"):
        return ("--without-spark",)
    master = request.config.getoption("--spark-master-url")
    return ("--spark-master-url", master) if master else ()


@pytest.fixture(scope="session")
def limit(request: pytest.FixtureRequest) -> Callable[[float], float]:
    """Returns the limit (s) for a duration that is promised for a machine without other work.

    The limit is ten times the promise, unless the tests run with ``--promised-times``.
    """
    factor = 1 if request.config.getoption("--promised-times") else 10
    return lambda promised: promised * factor


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest,
    placement: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[JobServerProcess]:
    """Yields the server; after the last test it must exit and leave no process and no file."""
    # Install packages of pipelines only from staged files, without a cache.
    cache = tmp_path_factory.mktemp("cache")
    environment = {
        "BEAM_RUNNER_CACHE_DIR": str(cache),
        "PIP_NO_INDEX": "1",
        # Functions of the fixed corpus are pickled by name.
        "PYTHONPATH": os.pathsep.join(
            (str(Path(__file__).parents[1] / "differential"), os.environ.get("PYTHONPATH", ""))
        ),
    }
    flags = [*placement, FAILING_SOON]
    if data := request.config.getoption("--data-dir"):
        flags += ["--data-dir", data]
    if bulk := request.config.getoption("--bulk"):
        flags += ["--bulk", bulk]
    program = WITHOUT_LOOP if request.config.getoption("--without-loop") else PROGRAM
    # Avoid pytest's folder: its path can be too long for sockets.
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *flags, environment=environment, program=program) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a command for PROCESS environments."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture(scope="session")
def flags_of(boot: Path) -> Callable[[str], list[str]]:
    """Returns the pipeline options that a user gives for an environment."""
    return environment_flags(boot).__getitem__


@pytest.fixture(autouse=True)
def _check_attempts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks after each test with the server that no user code ran again without a failure."""
    yield
    if "server" in request.fixturenames:
        running: JobServerProcess = request.getfixturevalue("server")
        running.check_attempts()


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture(scope="session")
def pipelines_in(
    server: JobServerProcess, flags_of: Callable[[str], list[str]]
) -> Callable[[str], Pipelines]:
    """Returns pipelines in an environment."""
    return lambda kind: Pipelines(server.address, kind, flags_of(kind))


@pytest.fixture(params=ENVIRONMENTS)
def pipelines(
    request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]
) -> Pipelines:
    """Returns pipelines in the most common environments."""
    return pipelines_in(request.param)


@pytest.fixture(params=[*ENVIRONMENTS, pytest.param("PROCESS", marks=pytest.mark.slow)])
def everywhere(
    request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]
) -> Pipelines:
    """Returns pipelines in every environment. CI runs harnesses as processes only in the tests of these processes."""
    return pipelines_in(request.param)


@pytest.fixture
def embedded(pipelines_in: Callable[[str], Pipelines]) -> Pipelines:
    """Returns pipelines without an environment option."""
    return pipelines_in("embedded")


@pytest.fixture(params=["LOOPBACK"])
def loopback(request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]) -> Pipelines:
    """Returns pipelines whose user code runs in the process of the test."""
    return pipelines_in(request.param)


@pytest.fixture(scope="module")
def patient(placement: tuple[str, ...]) -> Iterator[JobServerProcess]:
    """Yields a server with default flags, which retries failing streams without a limit."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *placement) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def lives(
    tmp_path_factory: pytest.TempPathFactory, placement: tuple[str, ...]
) -> Iterator[ServerLives]:
    """Yields a server without running jobs."""
    with server_lives(tmp_path_factory.mktemp("lives") / "state", placement) as running:
        yield running


@pytest.fixture(params=ENVIRONMENTS)
def streams(
    request: pytest.FixtureRequest,
    patient: JobServerProcess,
    flags_of: Callable[[str], list[str]],
) -> Pipelines:
    """Returns a source of pipelines for the patient server, in each environment."""
    return Pipelines(patient.address, request.param, flags_of(request.param))
