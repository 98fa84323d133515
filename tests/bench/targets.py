"""Compared runners: Beam's FnApiRunner, Prism if its binary exists, and this runner."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from free_ports import find_free_ports
from job_server import UNCHECKED, JobServerProcess

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_FN_API_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@attrs.frozen
class Outcome:
    """Run of a workload.

    Attributes:
        seconds: time from the submission to the end, seconds.
        latencies: latencies of elements, sorted, seconds; empty if the workload doesn't measure
            them.
    """

    seconds: float
    latencies: tuple[float, ...] = ()


Program = Callable[[str, int, tuple[str, ...], str], Outcome]
"""Function that runs a workload by name, with a number of elements, flags, and a folder for files."""


class Failed(Exception):
    """Raised if a target can't run a workload, or returns a wrong result."""


def run(name: str, elements: int, flags: tuple[str, ...], folder: str) -> Outcome:
    """Runs a workload in this process to its end.

    Raises:
        Failed: it did not end well, or with the wrong result.
    """
    import keyed_counts
    import row_workloads
    import workloads
    from apache_beam import Pipeline
    from apache_beam.internal.cloudpickle import cloudpickle
    from apache_beam.options.pipeline_options import PipelineOptions

    # Workers that are not forked from here cannot import the workloads, and need not.
    for module in (workloads, row_workloads, keyed_counts):
        cloudpickle.register_pickle_by_value(module)
    # The exception reports a failure once.
    logging.getLogger().setLevel(logging.CRITICAL)
    workload = workloads.WORKLOADS[name]
    private = Path(folder) / uuid.uuid4().hex
    private.mkdir()
    streaming = ("--streaming",) if workload.streaming else ()
    try:
        pipeline = Pipeline(options=PipelineOptions([*flags, *streaming]))
        expected = workload.build(pipeline, elements, private)
        started = time.perf_counter()
        result = pipeline.run()
        state = result.wait_until_finish()
        seconds = time.perf_counter() - started
        if str(state or result.state) != "DONE":
            raise Failed(f"ended {state}")
        counters = {
            found.key.metric.name: found.committed for found in result.metrics().query()["counters"]
        }
        count, total = counters.get("count", 0), counters.get("total", 0)
        if total != expected.total or expected.count not in (None, count):
            raise Failed(f"expected {expected}, got {count} and {total}")
        return Outcome(seconds, tuple(workloads.latencies(private)))
    except Failed:
        raise
    except Exception as error:
        # Exceptions of a client's libraries cannot always be sent to another process.
        raise Failed(f"{type(error).__name__}: {error}"[:500]) from None
    finally:
        shutil.rmtree(private, ignore_errors=True)


class Target:
    """Compared runner with a separate client process, which is warm after the first run.

    Args:
        title: column of the table.
        flags: pipeline options that select the runner.
        folder: folder for files of its workloads.
        program: function that runs a workload in the client process, as :func:`run` does.
    """

    def __init__(
        self, title: str, flags: tuple[str, ...], folder: Path, program: Program = run
    ) -> None:
        self.title = title
        self._flags = flags
        self._program = program
        self._folder = str(folder)
        self._client = self._new_client()

    def run(self, name: str, elements: int, seconds: float) -> Outcome:
        """Runs a workload.

        Raises:
            Failed: it did not end well, or not in time.
        """
        try:
            running = self._client.submit(self._program, name, elements, self._flags, self._folder)
            return running.result(seconds)
        except TimeoutError:
            self._end_client()
            self._client = self._new_client()
            raise Failed(f"not within {seconds:.0f} s") from None
        except BrokenProcessPool:
            self._client = self._new_client()
            raise Failed("its client process died") from None

    def close(self) -> None:
        """Stops the client."""
        self._end_client()

    def _end_client(self) -> None:
        for process in list(self._client._processes.values()):
            process.kill()
        self._client.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _new_client() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))


@contextmanager
def all_targets(
    prism: str | None, endpoint: str | None, environment: str, server_flags: tuple[str, ...]
) -> Iterator[list[Target]]:
    """Starts the targets for the block.

    Args:
        prism: Prism's binary; None leaves it out.
        endpoint: address of a running server; None starts a server.
        environment: environment type for this runner; empty for the default, which is embedded.
        server_flags: flags of the started server.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")))
        flags = {"FnApiRunner": (f"--runner={_FN_API_RUNNER}",)}
        if prism is not None:
            flags["Prism"] = portable(stack.enter_context(prism_process(prism)), "LOOPBACK")
        if endpoint is None:
            endpoint = stack.enter_context(server_process(server_flags)).address
        flags["ours"] = portable(endpoint, environment)
        targets = []
        for title, options in flags.items():
            targets.append(Target(title, options, folder))
            stack.callback(targets[-1].close)
        yield targets


def portable(endpoint: str, environment: str) -> tuple[str, ...]:
    named = (f"--environment_type={environment}",) if environment else ()
    return ("--runner=PortableRunner", f"--job_endpoint={endpoint}", *named)


@contextmanager
def server_process(flags: tuple[str, ...]) -> Iterator[JobServerProcess]:
    with tempfile.TemporaryDirectory(prefix="bench-server") as temporary:
        server = JobServerProcess(Path(temporary), *flags, environment=UNCHECKED)
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def prism_process(binary: str) -> Iterator[str]:
    (port,) = find_free_ports(1)
    command = [binary, f"--job_port={port}", "--serve_http=false", "--log_level=error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield f"localhost:{port}"
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("localhost", port), 0.5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise Failed("Prism did not start")
