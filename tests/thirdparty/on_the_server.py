"""Plugin of pytest that runs the pipelines of a library's tests on the server: ``pytest -p
on_the_server --pyargs library``.

The plugin starts a server. Pipelines without a runner, or with an in-process runner of Beam, run on
the server. Materialized results come back by files, and a failure comes back as the original
exception. ``--oracle`` doesn't redirect pipelines, for comparison.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam.pipeline
import pytest
from apache_beam import runners
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms import ptransform

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import job_server
from materialized import by_files

KNOWN = Path(__file__).with_name("known.toml")
_NAMED = re.compile(r"failed in state FAILED: (\w+): ")
_IN_PROCESS = ("directrunner", "fnapirunner", "bundlebaseddirectrunner", "switchingdirectrunner")


class OnServer(PortableRunner):
    """Runner that runs pipelines with any options on one server."""

    address = ""
    environment_type: str | None = None
    submitted = 0

    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        portable = options.view_as(PortableOptions)
        portable.job_endpoint = OnServer.address
        portable.environment_type = OnServer.environment_type
        OnServer.submitted += 1
        result = super().run_pipeline(pipeline, options)
        wait = result.wait_until_finish

        def wait_until_finish(duration: int | None = None) -> Any:
            try:
                return wait(duration)
            except RuntimeError as failure:
                raise _of_user_code(failure) from failure

        result.wait_until_finish = wait_until_finish
        return result


def _of_user_code(failure: RuntimeError) -> Exception:
    """Returns the exception that an in-process runner would have raised, if the text names its class."""
    named = _NAMED.search(str(failure))
    kind = getattr(builtins, named[1], None) if named else None
    is_exception = isinstance(kind, type) and issubclass(kind, Exception)
    return kind(str(failure)) if is_exception else failure


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the place where pipelines run."""
    parser.addoption("--oracle", action="store_true", help="leave pipelines to Beam's own runners")
    parser.addoption("--environment", help="name one, such as LOOPBACK")


@pytest.fixture(autouse=True, scope="session")
def _server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Yields the server of all tests, and checks that it still works at the end."""
    if request.config.getoption("--oracle"):
        yield
        return
    create = runners.create_runner
    with tempfile.TemporaryDirectory(prefix="t") as folder, job_server(Path(folder)) as running:
        OnServer.address = running.address
        OnServer.environment_type = request.config.getoption("--environment")

        def on_server(name: str) -> Any:
            return OnServer() if name.lower() in _IN_PROCESS else create(name)

        with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as results:
            patched.setattr(apache_beam.pipeline, "create_runner", on_server)
            materialized = ptransform._AddMaterializationTransforms
            patched.setattr(materialized, "_materialize_transform", by_files(results))
            yield
    print(f"\n{OnServer.submitted} pipelines were sent to the server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips known failures, with their causes."""
    known: dict[str, dict[str, str]] = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    reasons = known.get(os.environ.get("BEAM_LIBRARY", ""), {})
    for item in items:
        reason = reasons.get(_name(item))
        if reason and not item.config.getoption("--oracle"):
            item.add_marker(pytest.mark.skip(reason=f"KNOWN: {reason}"))


def pytest_configure() -> None:
    """Tests of absl's ask for flags that its own program would have parsed."""
    if importlib.util.find_spec("absl"):
        importlib.import_module("absl.flags").FLAGS.mark_as_parsed()


def _name(item: pytest.Item) -> str:
    """Returns the file name and the test name, because library paths differ between machines."""
    return f"{item.path.name}::{item.nodeid.partition('::')[2]}"
