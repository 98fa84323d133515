"""A worker process keeps the files of its harnesses where the end of the job removes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from beam_spark_executor.task.process import _temporary_files_in


def test_temporary_files_go_to_the_jobs_folder_and_back(tmp_path: Path) -> None:
    usual = tempfile.gettempdir()
    folder = tmp_path / "job"
    with _temporary_files_in(str(folder)):
        assert Path(tempfile.mkdtemp()).parent == folder
    assert tempfile.gettempdir() == usual


def test_also_after_an_error(tmp_path: Path) -> None:
    usual = tempfile.gettempdir()
    with pytest.raises(RuntimeError), _temporary_files_in(str(tmp_path)):
        raise RuntimeError
    assert tempfile.gettempdir() == usual
