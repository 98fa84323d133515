from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from beam_spark_executor.spark import java
from beam_spark_executor.spark.java import (
    check_java,
    list_session_processes,
    set_temporary_environment,
)
from beam_spark_executor.spark.settings import SparkUnavailable


def fake_java(folder: Path, version: str, code: int = 0) -> dict[str, str]:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_supported_java_is_accepted(tmp_path: Path, version: str, major: int) -> None:
    assert check_java(fake_java(tmp_path, version)) == major


def test_java_is_found_on_path(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.1")
    assert check_java({"PATH": str(tmp_path / "bin")}) == 17


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_old_java_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(SparkUnavailable, match="too old for Spark: install Java 17 or newer"):
        check_java(fake_java(tmp_path, version))


def test_missing_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="this machine has none: install Java 17"):
        check_java({"PATH": str(tmp_path)})


def test_wrong_java_home_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="no bin/java: install Java 17"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_broken_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="doesn't work"):
        check_java(fake_java(tmp_path, "17", code=1))


def test_java_environment_variables_are_restored() -> None:
    before = dict(os.environ)
    with set_temporary_environment(PATH="x", BEAM_SPARK_TEST="y"):
        assert (os.environ["PATH"], os.environ["BEAM_SPARK_TEST"]) == ("x", "y")
    assert dict(os.environ) == before


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_java_processes_of_session_are_found() -> None:
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            found = list_session_processes(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.pid in found
    assert len(found) == 2
    # The new parent of the killed process reaps it at any time.
    wait_until(lambda: not list_session_processes(process.pid))


@pytest.mark.parametrize(
    ("line", "is_noise"),
    [
        ("WARNING: package sun.security.action not in java.base", True),
        (
            "WARN DAGScheduler: Failed to cancel job group beam-x. Cannot find active jobs for it.",
            True,
        ),
        ("WARN DAGScheduler: Broadcasting large task binary", False),
        ("WARNING: Using incubator modules: jdk.incubator.vector", True),
    ],
)
def test_log_noise_of_successful_jobs_is_suppressed(line: str, is_noise: bool) -> None:
    assert (java._NOISE.match(line) is not None) == is_noise
