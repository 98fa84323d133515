"""Tests of writing the shared class file: the file is complete, or an error of one sentence is printed
and no file left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from beam_runner_model.errors import Unavailable

from beam_spark_executor import share_classes


@pytest.fixture(autouse=True)
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates the class folder of a fake Spark."""
    folder = tmp_path / "jars"
    folder.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return folder


def test_share_classes_command_replaces_previous_file(
    jars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: str) -> None:
        found = re.search(r"-XX:ArchiveClassesAtExit=(\S+)", options)
        assert found is not None
        Path(found[1]).write_text("classes")

    monkeypatch.setattr(share_classes, "_run_spark", run)
    for _ in range(2):
        assert share_classes.main([]) == 0
    (made,) = jars.iterdir()
    assert made.read_text() == "classes"
    assert capsys.readouterr().out == f"{made}\n" * 2


def test_share_classes_command_with_unsuitable_java_prints_one_sentence(
    jars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(share_classes, "_run_spark", lambda options: None)
    assert share_classes.main([]) == 1
    assert "Java wrote no beam-classes-" in capsys.readouterr().err
    assert not list(jars.iterdir())


def test_share_classes_command_with_failing_spark_start_prints_one_sentence(
    jars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: str) -> None:
        raise Unavailable("there is no Java.")

    monkeypatch.setattr(share_classes, "_run_spark", run)
    assert share_classes.main([]) == 1
    assert capsys.readouterr().err == "beam-spark-jobserver: there is no Java.\n"


def test_share_classes_command_with_read_only_folder_prints_one_sentence(
    jars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jars.rmdir()
    monkeypatch.setattr(share_classes, "_run_spark", lambda options: None)
    assert share_classes.main([]) == 1
    assert str(jars) in capsys.readouterr().err
