"""One server for Beam's suites."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import FAILING_SOON, job_server
from marks import declare_beam_marks

_STACK = pytest.StashKey[ExitStack]()
_SHARED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the flags of the test server."""
    parser.addoption(
        "--bulk", default="auto", help="whether stages of bounded data are run as Spark's own jobs"
    )
    parser.addoption(
        "--without-spark",
        action="store_true",
        help="run bundles in plain processes of this machine",
    )
    parser.addoption(
        "--address",
        default="",
        help="address of a running server; by default the tests start a server",
    )


@contextmanager
def _served(config: pytest.Config) -> Iterator[str]:
    """Yields the address of a server, with default flags unless the command line changes them.

    At the end, the server must exit normally and leave no process and no file.
    """
    if given := config.getoption("--address"):
        yield given
        return
    flags = ["--bulk", config.getoption("--bulk")]
    if config.getoption("--without-spark"):
        flags.append("--without-spark")
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), FAILING_SOON, *flags) as running,
    ):
        yield running.address


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Starts the server that all test processes share."""
    stash = node.config.stash
    if _SHARED not in stash:
        stash[_STACK] = ExitStack()
        stash[_SHARED] = stash[_STACK].enter_context(_served(node.config))
    node.workerinput["address"] = stash[_SHARED]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stops the shared server."""
    if stack := session.config.stash.get(_STACK, None):
        stack.close()


@pytest.fixture(scope="session")
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Returns the address of the server."""
    shared = getattr(request.config, "workerinput", {}).get("address")
    with nullcontext(shared) if shared else _served(request.config) as served:
        yield served


def pytest_configure(config: pytest.Config) -> None:
    """Declares the pytest marks of Beam's test modules."""
    declare_beam_marks(config)
