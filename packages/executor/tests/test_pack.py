"""Tests of packed environments: complete, limited to one environment, and independent of their location."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from beam_spark_executor import pack

PACKED = ("beam_spark_executor", "beam_runner_runtime", "apache_beam", "pyarrow", "grpc")
WHERE = """
import json, sys, ssl, sqlite3, pkgutil, encodings
modules = [__import__(name) for name in sys.argv[1:]]
found = [ssl, sqlite3, encodings, *modules]
print(json.dumps([sys.prefix, sys.executable, *(module.__file__ for module in found)]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Creates a virtual environment with packages of the right names."""
    folder = tmp_path / "made"
    venv.create(folder, symlinks=True)
    for name in PACKED:
        package = packages_of(folder) / name
        package.mkdir()
        (package / "__init__.py").write_text("")
    return folder


def packages_of(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3.*/site-packages")
    return found


def pack_it(environment: Path, name: str = "packed.tar.gz") -> subprocess.CompletedProcess[str]:
    assert pack.__file__ is not None
    # The folder has modules with names of the standard library, which Python must not find.
    program = [environment / "bin" / "python", "-P", pack.__file__]
    return subprocess.run(
        [*program, "-o", environment.parent / name],
        capture_output=True,
        text=True,
        env={},
        check=False,
    )


def test_packed_environment_runs_after_unpacking(environment: Path, tmp_path: Path) -> None:
    jars = packages_of(environment) / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark.jar").write_text("large")
    done = pack_it(environment)
    assert done.returncode == 0, done.stderr
    archive = tmp_path / "packed.tar.gz"
    assert done.stdout.splitlines() == [
        f"--spark-conf=spark.archives={archive}#environment",
        "--spark-conf=spark.pyspark.python=./environment/bin/python",
    ]
    environment.rename(tmp_path / "gone")
    unpacked = tmp_path / "elsewhere"
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="tar")
    assert not list(unpacked.rglob("*.jar"))
    told = subprocess.check_output(
        ["./elsewhere/bin/python", "-c", WHERE, *PACKED], cwd=tmp_path, env={}
    )
    assert {Path(each).is_relative_to(unpacked) for each in json.loads(told)} == {True}


def test_pack_command_refuses_editable_package(environment: Path, tmp_path: Path) -> None:
    info = packages_of(environment) / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "direct_url.json").write_text('{"url": "file:///mine", "dir_info": {"editable": true}}')
    done = pack_it(environment)
    assert done.returncode == 1
    assert done.stderr == (
        "beam-spark-jobserver: mine is installed in editable mode from file:///mine, which executors don't have: install it as a wheel\n"
    )
    assert not list(tmp_path.glob("*packed*"))


def test_pack_command_reports_missing_package(environment: Path) -> None:
    (packages_of(environment) / "grpc").rename(environment / "grpc")
    done = pack_it(environment)
    assert done.returncode == 1
    assert (
        f"executors need grpc, which isn't installed in {packages_of(environment)}" in done.stderr
    )


def test_pack_command_reports_archive_name_that_spark_would_not_unpack(environment: Path) -> None:
    done = pack_it(environment, "packed.zip")
    assert done.returncode == 2
    assert "packed.zip must end in .tar.gz" in done.stderr


def test_server_command_has_subcommand_pack() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beam_spark_executor.cli", "pack", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("usage: beam-spark-jobserver pack")
