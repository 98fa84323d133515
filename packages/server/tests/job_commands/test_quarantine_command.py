"""Tests that the command `quarantine` lists quarantine files (files of failing elements) without a
server.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from beam_runner_driver.quarantine.quarantine_files import build_quarantine_table
from beam_runner_model.quarantine import QuarantinedUnit, QuarantinedUnitKind

from beam_runner_server import cli
from beam_runner_server.plain import PlainProgram


def unit(
    step: str, time: int, kind: QuarantinedUnitKind = QuarantinedUnitKind.ELEMENT
) -> QuarantinedUnit:
    return QuarantinedUnit(kind, step, f"ValueError: {time}", "", time, (), "", b"x", "c")


def run(*arguments: str) -> int:
    return cli.main(["quarantine", *arguments], PlainProgram())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for job, name, units in (
        ("job-1", "a", [unit("Parse", 5000), unit("Parse", 1000)]),
        ("job-1", "b", [unit("Parse", 9000), unit("Count", 3, QuarantinedUnitKind.GROUP)]),
        ("job-2", "a", [unit("Parse", -(1 << 62))]),
    ):
        (tmp_path / job).mkdir(exist_ok=True)
        pq.write_table(build_quarantine_table(job, units), tmp_path / job / f"{name}.parquet")
    (tmp_path / "other").write_text("not a quarantine file")
    return tmp_path


def test_quarantine_command_counts_elements(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(folder), "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["job_id"], row["step"], row["kind"], row["count"]) for row in rows] == [
        ("job-1", "Count", "group", 1),
        ("job-1", "Parse", "element", 3),
        ("job-2", "Parse", "element", 1),
    ]
    assert (rows[1]["first_ms"], rows[1]["last_ms"]) == (1000, 9000)
    assert run(f"file://{folder}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "1970-01-01 00:00:09" in lines[2]


def test_quarantine_command_without_elements_prints_that_quarantine_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(tmp_path)) == 0
    assert str(tmp_path) in capsys.readouterr().out


def test_quarantine_command_with_unreadable_files_fails_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.parquet").write_text("nothing")
    assert run(str(tmp_path)) == 1
    assert run("ftp://host/x") == 1
    assert capsys.readouterr().err.count("\n") == 2
