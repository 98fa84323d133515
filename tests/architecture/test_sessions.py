"""Tests that nox sessions build and run only the parts that they need."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

import noxfile
from tools.version_cells import NEWEST


def test_wordcount_session_builds_only_the_newest_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(noxfile, "WHEELS", tmp_path)
    monkeypatch.setattr(noxfile, "CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(
        noxfile, "build_pyspark_wheels", lambda _, *versions: built.extend(versions) or []
    )
    noxfile.wheels(mock.MagicMock())
    assert set(noxfile.wordcount.requires) <= {"wheels"}
    assert built == [NEWEST.pyspark_version]
