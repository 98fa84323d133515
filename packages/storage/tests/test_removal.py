"""Tests of the removal of folders into which other processes write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_runner_storage.removal import remove_tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job" / "process").mkdir(parents=True)
    (tmp_path / "job" / "process" / "data").touch()
    return tmp_path / "job"


def write_before_removal(folder: Path, times: float) -> Callable[..., None]:
    """Returns an ``os.rmdir`` before which another process writes a file, a number of times."""
    remove = os.rmdir
    left = times

    def rmdir(path: Any, **options: Any) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            (folder / "process" / "exit").touch()
        remove(path, **options)

    return rmdir


def test_remove_tree_removes_a_folder_with_its_content(folder: Path) -> None:
    assert remove_tree(folder)
    assert not folder.exists()


def test_remove_tree_of_a_missing_folder_succeeds(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "missing")


@pytest.mark.parametrize("times", [1, 2])
def test_remove_tree_removes_files_written_during_the_removal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(os, "rmdir", write_before_removal(folder, times))
    assert remove_tree(folder)
    assert not folder.exists()


def test_remove_tree_gives_up_on_a_folder_that_always_gets_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rmdir", write_before_removal(folder, float("inf")))
    assert not remove_tree(folder)
