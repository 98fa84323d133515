"""Tests of the shared class file: it is used if it exists for this Java and this Spark, and the user doesn't object."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_spark_executor.spark.class_sharing import (
    find_shared_classes_file,
    make_archive_creation_options,
    make_archive_use_options,
)


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates folders of a fake Spark and a fake Java."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return tmp_path


def test_shared_class_file_is_used_if_present() -> None:
    assert make_archive_use_options("") == ""
    find_shared_classes_file().touch()
    assert f"-XX:SharedArchiveFile={find_shared_classes_file()}" in make_archive_use_options(
        "-Xmx1g"
    )


@pytest.mark.parametrize(
    "theirs",
    ["-XX:SharedArchiveFile=/a", "-Xshare:off", make_archive_creation_options(Path("/somewhere"))],
)
def test_shared_class_options_of_user_take_precedence(theirs: str) -> None:
    find_shared_classes_file().touch()
    assert make_archive_use_options(theirs) == ""


def test_shared_class_file_is_specific_to_java_and_spark(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_shared_classes_file()
    assert before.parent == spark_home / "spark" / "jars"
    monkeypatch.setenv("JAVA_HOME", str(spark_home / "another"))
    other = find_shared_classes_file()
    monkeypatch.setenv("SPARK_HOME", str(spark_home / "another"))
    assert len({before.name, other.name, find_shared_classes_file().name}) == 3
