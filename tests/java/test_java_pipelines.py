"""Tests of programs of Beam's Java SDK in each kind of environment that needs no container."""

from __future__ import annotations

import collections
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from job_server import JobServerProcess

TEXT = Path(__file__).parents[2] / "README.md"
SECONDS = 120


@pytest.fixture(params=["LOOPBACK", "PROCESS"])
def environment(request: pytest.FixtureRequest, class_path: str, tmp_path: Path) -> tuple[str, ...]:
    """Returns the options of the environment; a PROCESS becomes the harness with the same class path."""
    options = [f"--defaultEnvironmentType={request.param}"]
    if request.param == "PROCESS":
        boot = tmp_path / "boot"
        boot.write_text(f'#!/bin/sh\nexec java -cp "{class_path}" Boot "$@"\n', encoding="utf-8")
        boot.chmod(0o755)
        options.append(f"--defaultEnvironmentConfig={json.dumps({'command': str(boot)})}")
    return tuple(options)


def run(
    program: str,
    class_path: str,
    server: JobServerProcess,
    environment: Sequence[str],
    *options: str,
) -> str:
    """Runs a program to its exit; returns its output if it failed, and an empty text otherwise."""
    to = ("--runner=PortableRunner", f"--jobEndpoint={server.address}", *environment)
    done = subprocess.run(
        ["java", "-cp", class_path, program, *to, *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return "" if done.returncode == 0 else f"{program}: {done.stderr[-4000:]}"


def test_java_wordcount_gives_exact_results(
    server: JobServerProcess, class_path: str, environment: Sequence[str], tmp_path: Path
) -> None:
    files = (f"--input={TEXT}", f"--output={tmp_path / 'counts'}")
    assert run("WordCount", class_path, server, environment, *files) == ""
    lines = [line for part in tmp_path.glob("counts-*") for line in part.open(encoding="utf-8")]
    counts = dict(line.strip().split(": ") for line in lines)
    words = re.findall(r"[^\W\d_]+", TEXT.read_text(encoding="utf-8"))
    assert counts == {word: str(count) for word, count in collections.Counter(words).items()}


def test_java_bundle_split_while_running_loses_no_element(
    server: JobServerProcess, class_path: str, environment: Sequence[str]
) -> None:
    assert run("LongBundle", class_path, server, environment) == ""
