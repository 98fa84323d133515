"""Tests of the lookups that need neither an import of PySpark nor a start of Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from beam_spark_executor.spark.spark_home import find_spark_home, read_java_version


def test_spark_home_is_found_without_import_of_pyspark() -> None:
    code = (
        "import sys\n"
        "from beam_spark_executor.spark.session import RunningSpark\n"
        "from beam_spark_executor.spark.spark_home import find_spark_home\n"
        "print(find_spark_home(), 'pyspark' in sys.modules)"
    )
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert told.split() == [_find_spark_home(), "False"]


def test_spark_home_variable_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/my/spark")
    assert find_spark_home() == "/my/spark"


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.15"\n', 17),
        ('JAVA_VERSION="1.8.0_392"\n', 8),
        ('JAVA_VERSION="25"\n', 25),
        ("no version\n", None),
        (None, None),
    ],
)
def test_java_version_is_read_from_release_file(
    release: str | None, version: int | None, tmp_path: Path
) -> None:
    if release is not None:
        (tmp_path / "release").write_text(release)
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch()
    link = tmp_path / "java"
    link.symlink_to(program)
    assert read_java_version(str(link)) == version
