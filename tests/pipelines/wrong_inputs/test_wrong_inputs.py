"""Tests that each wrong input ends with one sentence that names the input, and without frames of
the server or of gRPC.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
import string
import threading
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import apache_beam as beam
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from beam_runner_jobservices.guard import read_access_guard
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import JobState
from beam_runner_storage.durable.folders import lock_folder
from forked_programs import SERVER, run_forked_program
from free_ports import find_free_ports
from job_server import JobServerProcess
from jobs import Pipelines

from .command_inputs import COMMANDS
from .program_inputs import PROGRAMS

INPUTS = {**COMMANDS, **PROGRAMS}
MAIN = "main.py"
SERVER_FRAME = re.compile(r'File "[^"]*/(beam_runner_\w+|beam_spark_executor/(?!client)|grpc)/')


def run_job(address: str, name: str) -> str:
    """Runs a job until its end, and returns its id."""
    pipelines = Pipelines(address, "embedded", ())
    pipeline = pipelines.new(f"--job_name={name}")
    _ = pipeline | beam.Create([1])
    job = pipelines.job(pipeline)
    assert job.wait() is JobState.DONE
    return str(job.job_id)


@contextlib.contextmanager
def run_stream(address: str, name: str) -> Iterator[str]:
    """Runs a stream during the block, and yields its id."""
    pipelines = Pipelines(address, "embedded", ())
    pipeline = pipelines.new(f"--job_name={name}", "--streaming")
    _ = pipeline | PeriodicImpulse(fire_interval=60)
    job = pipelines.job(pipeline)
    try:
        yield str(job.job_id)
    finally:
        job.cancel()
        job.wait()


@pytest.fixture(scope="module")
def given(
    server: JobServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Yields the values of ``$NAME`` in wrong inputs: servers, ports and jobs."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "token").write_text("the token of the server")
    guarded = JobServer(
        Mock(),
        artifacts_dir=folder / "a",
        port=0,
        guard=read_access_guard(token_file=folder / "token"),
    )
    guarded.start()
    for _ in range(2):
        run_job(server.address, "twin")
    with contextlib.ExitStack() as stack:
        stack.callback(guarded.stop)
        stack.enter_context(lock_folder(folder / "locked", "jobs.lock", "state"))
        silent = stack.enter_context(socket.create_server(("localhost", 0)))
        web = stack.enter_context(ThreadingHTTPServer(("localhost", 0), SimpleHTTPRequestHandler))
        threading.Thread(target=web.serve_forever, daemon=True).start()
        stack.callback(web.shutdown)
        running = stack.enter_context(run_stream(server.address, "running"))
        yield {
            "server": server.address,
            "guarded": guarded.address,
            "locked": str(folder / "locked"),
            "free": str(find_free_ports(1)[0]),
            "taken": str(silent.getsockname()[1]),
            "silent": f"localhost:{silent.getsockname()[1]}",
            "web": f"localhost:{web.server_port}",
            "running": running,
            "ended": run_job(server.address, "ended"),
        }
    server.wait_until_idle()


def substitute(text: str, given: Mapping[str, str]) -> str:
    return string.Template(text).substitute(given)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", INPUTS)
def test_wrong_input_ends_with_one_sentence(
    name: str, given: dict[str, str], tmp_path: Path, record_property: pytest.Recorder
) -> None:
    wrong = INPUTS[name]
    given = {**given, "folder": str(tmp_path / "program")}
    for file, text in wrong.files.items():
        path = tmp_path / "program" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "program").mkdir(exist_ok=True)
    ended = run_forked_program(
        tmp_path,
        tmp_path / "program",
        MAIN if MAIN in wrong.files else SERVER,
        shlex.split(substitute(wrong.line, given)),
        {key: substitute(value, given) for key, value in wrong.environment.items()},
    )
    record_property("seconds", f"{ended.seconds:.1f}")
    assert ended.code == wrong.refusal.exit_code, ended.output
    lines = [line for line in ended.output.splitlines() if " INFO " not in line]
    for text in wrong.says:
        assert substitute(text, given) in lines[-1], ended.output
    if wrong.refusal.is_one_line:
        assert len(lines) == 1, ended.output
    assert not SERVER_FRAME.search(ended.output), ended.output
