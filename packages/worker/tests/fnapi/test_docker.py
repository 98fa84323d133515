"""Tests of containers: started according to Beam's contract, logged, and removed in every case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from beam_runner_model.stages import Environment
from processes import is_alive
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.errors import HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi.docker import DockerWorker
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)

IMAGE = "example.com/sdk:1"
# A docker command whose containers are processes in separate sessions, as with a daemon.
DOCKER = f"""\
#!{sys.executable}
import os, pathlib, signal, subprocess, sys
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "rm":
    os.kill(int((here / sys.argv[3]).read_text()), signal.SIGKILL)
if sys.argv[1] == "run":
    name = next(a for a in sys.argv if a.startswith("--name=")).partition("=")[2]
    image = sys.argv.index("{IMAGE}")
    container = subprocess.Popen(COMMAND + sys.argv[image + 1:], start_new_session=True)
    (here / name).write_text(str(container.pid))
    sys.exit(container.wait())
"""
BOOT = [sys.executable, "-m", "beam_runner_worker.fnapi.boot"]


def docker(payload_image: str = IMAGE) -> Environment:
    payload = beam_runner_api_pb2.DockerPayload(container_image=payload_image)
    return Environment("beam:env:docker:v1", payload.SerializeToString())


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a folder of commands first in the search path."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def install(folder: Path, text: str) -> None:
    (folder / "docker").write_text(text)
    (folder / "docker").chmod(0o755)


def containers(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("beam-*")]


def test_container_runs_pipeline_and_is_removed(commands: Path) -> None:
    install(commands, DOCKER.replace("COMMAND", repr(BOOT)))
    p = new_pipeline()
    p | beam.Create([1, 2, 3]) | beam.Map(lambda n: print(f"the container says {n}", flush=True))
    host = TinyHost(p)
    logs = Logs()
    server = FnApiServer(create_job(docker(), environments=host.environment_ids), Artifacts(), logs)
    try:
        host.run(server.get_harness)
        (container,) = containers(commands)
        assert is_alive(container)
    finally:
        server.close()
    assert not is_alive(container)
    run, *rest = (commands / "calls").read_text().splitlines()
    name = next(commands.glob("beam-*")).name
    assert run.startswith(f"run --rm --network=host --name={name} {IMAGE} --id=sdk-")
    assert " --provision_endpoint=127.0.0.1:" in run
    assert rest == [f"rm --force {name}"]
    assert "the container says 2" in logs.messages


def test_docker_errors_are_reported(commands: Path) -> None:
    install(commands, "#!/bin/sh\necho no daemon is running >&2; exit 125\n")
    p = new_pipeline()
    p | beam.Create([1]) | beam.Map(print)
    host = TinyHost(p)
    server = FnApiServer(
        create_job(docker(), environments=host.environment_ids), Artifacts(), Logs()
    )
    try:
        with pytest.raises(
            HarnessError, match=r"(?s)sdk:1.*exited with code 125.*no daemon is running"
        ):
            host.run(server.get_harness)
    finally:
        server.close()


def test_missing_docker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UnsupportedEnvironment, match=rf"'env'.*{IMAGE}.*command 'docker' isn't installed"
    ):
        DockerWorker("env", docker().payload, "w", print)


def test_container_is_removed_after_kill_of_runner(commands: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    install(commands, DOCKER.replace("COMMAND", repr(sleep)))
    runner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import time
                from beam_runner_worker.fnapi.docker import DockerWorker
                DockerWorker("env", {docker().payload!r}, "w", print).start("127.0.0.1:1")
                time.sleep(600)
            """),
        ],
    )
    try:
        wait_until(
            lambda: any((commands / "beam-w").read_text() for _ in commands.glob("beam-w")), 60
        )
        (container,) = containers(commands)
        assert is_alive(container)
        runner.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_alive(container))
    finally:
        runner.kill()
        runner.wait()
