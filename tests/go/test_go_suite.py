"""Tests of pipelines of Beam's Go SDK: a fixed part of its integration tests over LOOPBACK.

The pipelines check their elements, and fail if an element is wrong.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from job_server import JobServerProcess

NAMES = re.findall(
    r'^\t"(Test\w+)":',
    Path(__file__).with_name("main.go").read_text(encoding="utf-8"),
    re.MULTILINE,
)
OF_TWO_SDKS = "TestDataframe"
SECONDS = 60


def run(program: Path, name: str, server: JobServerProcess, *flags: str) -> str:
    """Runs a pipeline to its end; returns its error output, empty after success."""
    endpoint = f"--endpoint={server.address}"
    done = subprocess.run(
        [str(program), "--pipeline", name, endpoint, "--environment_type=LOOPBACK", *flags],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return "" if done.returncode == 0 else f"{name}: {done.stdout[-2000:]}{done.stderr[-4000:]}"


@pytest.mark.timeout(900)
def test_go_program_contains_all_listed_pipelines(program: Path) -> None:
    listed = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True)
    assert listed.stdout.split() == sorted(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != OF_TWO_SDKS])
def test_go_suite(server: JobServerProcess, program: Path, name: str) -> None:
    assert run(program, name, server) == ""


def test_job_with_go_and_python_steps_gives_exact_results(
    server: JobServerProcess, program: Path, expansion: str
) -> None:
    """The Go pipeline contains an embedded DataFrame transform of Python."""
    assert run(program, OF_TWO_SDKS, server, f"--expansion={expansion}") == ""
