"""One server for all tests of this folder, and pipelines in every kind of environment."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from harness_commands import boot_command, environment_flags
from job_server import FAILING_SOON, PROGRAM, WITHOUT_LOOP, JobServerProcess, job_server
from jobs import Pipelines, pickle_by_value

ENVIRONMENTS = ("embedded", "LOOPBACK")
EVERY_ENVIRONMENT = (*ENVIRONMENTS, "PROCESS")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what the server of the tests is started with."""
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
    """Declares the mark of tests that CI runs with some of their parameters."""
    config.addinivalue_line("markers", "slow_in(parameter, ...): slow with these parameters")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks a test as slow with the parameters, mostly environments, that its mark ``slow_in`` names."""
    for item in items:
        mark = item.get_closest_marker("slow_in")
        if mark and isinstance(item, pytest.Function):
            values = {str(value) for value in item.callspec.params.values()}
            if values & set(mark.args):
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What user code has logged can be text that can't be encoded, and then not be sent by a process of tests."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(scope="session")
def placement(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of a server that say what worker processes run on."""
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
    """The server; after the last test it must end and leave nothing."""
    # What pipelines bring along is installed from what is staged alone, and not kept for later.
    cache = tmp_path_factory.mktemp("cache")
    environment = {
        "BEAM_RUNNER_CACHE_DIR": str(cache),
        "PIP_NO_INDEX": "1",
        # The functions of the fixed corpus are pickled by their names.
        "PYTHONPATH": str(Path(__file__).parents[1] / "differential"),
    }
    flags = [*placement, FAILING_SOON]
    if data := request.config.getoption("--data-dir"):
        flags += ["--data-dir", data]
    if bulk := request.config.getoption("--bulk"):
        flags += ["--bulk", bulk]
    program = WITHOUT_LOOP if request.config.getoption("--without-loop") else PROGRAM
    # Not pytest's folder: its path may be too long for the sockets that are made in it.
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *flags, environment=environment, program=program) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A command for PROCESS environments."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture(scope="session")
def flags_of(boot: Path) -> Callable[[str], list[str]]:
    """What a user types for a kind of environment."""
    return environment_flags(boot).__getitem__


@pytest.fixture(autouse=True)
def _check_attempts(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test with the server: no user code has run again without a failure."""
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
    """Pipelines in a kind of environment."""
    return lambda kind: Pipelines(server.address, kind, flags_of(kind))


@pytest.fixture(params=ENVIRONMENTS)
def pipelines(
    request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]
) -> Pipelines:
    """Pipelines in the environments that most people use."""
    return pipelines_in(request.param)


@pytest.fixture(params=EVERY_ENVIRONMENT)
def everywhere(
    request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]
) -> Pipelines:
    """Pipelines in every kind of environment there is."""
    return pipelines_in(request.param)


@pytest.fixture
def embedded(pipelines_in: Callable[[str], Pipelines]) -> Pipelines:
    """Pipelines of users who name no environment."""
    return pipelines_in("embedded")


@pytest.fixture(params=["LOOPBACK"])
def loopback(request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]) -> Pipelines:
    """Pipelines whose user code runs in the process of the test."""
    return pipelines_in(request.param)
