"""Tests that clients of other versions get correct results, or a refusal that names both versions."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from installed import ENVIRONMENT, HERE, Clients, worker_pool
from job_server import JobServerProcess

pytestmark = pytest.mark.timeout(2400)
# Python versions for which Beam has wheels.
PYTHONS = {
    "2.55": ("3.10", "3.11"),
    "2.60": ("3.10", "3.11", "3.12"),
    "2.65": ("3.10", "3.11", "3.12"),
    "2.70": ("3.10", "3.11", "3.12", "3.13"),
    "2.75": ("3.10", "3.11", "3.12", "3.13"),
    "2.77": ("3.10", "3.12", "3.13"),
}
ENVIRONMENTS = ("embedded", "LOOPBACK", "PROCESS", "EXTERNAL")
GO = ("2.60", "2.77")
POOL = ("-m", "apache_beam.runners.worker.worker_pool_main")
SECONDS = 300
MAIN = "import pipelines; pipelines.main()"
RIGHT = "ALL RIGHT"


def finished(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a client to its exit."""
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=ENVIRONMENT,
    )


def script(folder: Path, *words: str | Path) -> Path:
    """Writes a script that runs another command with its arguments."""
    file = folder / "boot"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={HERE} exec {shlex.join(map(str, words))} "$@"\n')
    file.chmod(0o755)
    return file


@contextmanager
def flags(environment: str, command: Path, *pool: str | Path) -> Iterator[tuple[str, ...]]:
    """Yields the pipeline options of an environment, and runs its services for the block.

    Args:
        environment: kind of the environment.
        command: command of a PROCESS.
        pool: command of an EXTERNAL pool.
    """
    match environment:
        case "embedded":
            yield ()
        case "PROCESS":
            config = json.dumps({"command": str(command)})
            yield "--environment_type=PROCESS", f"--environment_config={config}"
        case "EXTERNAL":
            with worker_pool(*map(str, pool)) as address:
                yield "--environment_type=EXTERNAL", f"--environment_config={address}"
        case _:
            yield (f"--environment_type={environment}",)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(
    ("beam", "python"), [(beam, python) for beam, pythons in PYTHONS.items() for python in pythons]
)
def test_python_client_completes_or_is_refused_by_version(
    server: JobServerProcess,
    clients: Clients,
    tmp_path: Path,
    beam: str,
    python: str,
    environment: str,
) -> None:
    interpreter = clients.python(beam, python)
    boot = script(tmp_path, interpreter, HERE / "boot.py")
    where = ("--runner=PortableRunner", f"--job_endpoint={server.address}")
    with flags(environment, boot, interpreter, *POOL) as chosen:
        done = finished(interpreter, "-c", MAIN, *where, *chosen)
    if environment == "embedded":
        check_refusal(done, rf"Beam {re.escape(beam)}\.\d+ and Python {re.escape(python)}")
    else:
        check_answer(done)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("beam", GO)
def test_go_client_completes_or_is_refused_by_version(
    server: JobServerProcess, clients: Clients, tmp_path: Path, beam: str, environment: str
) -> None:
    if (beam, environment) == ("2.60", "PROCESS"):
        pytest.skip("NOT RUN: this version of Go's SDK has no PROCESS")
    program = clients.go(beam)
    boot = script(tmp_path, sys.executable, HERE / "boot.py", f"--program={program}")
    pool = (sys.executable, *POOL, f"--container_executable={boot}")
    # Without this option, Go builds the program again for workers.
    where = (f"--endpoint={server.address}", f"--worker_binary={program}")
    with flags(environment, boot, *pool) as chosen:
        done = finished(program, *where, *chosen)
    if environment == "embedded":
        check_refusal(done, rf"the SDK '[^']*{re.escape(beam)}[^']*'")
    else:
        check_answer(done)


def check_answer(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0 and RIGHT in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]


def check_refusal(done: subprocess.CompletedProcess[str], client: str) -> None:
    """Checks that the refusal is one sentence with the versions of client and server."""
    python = ".".join(map(str, sys.version_info[:2]))
    own = re.escape(f"Beam {version('apache-beam')} and Python {python}")
    sentence = rf"the pipeline uses {client}, and the server uses {own}"
    assert done.returncode != 0 and RIGHT not in done.stdout
    assert re.search(sentence, done.stderr + done.stdout), done.stderr[-3000:]
