"""Tests that errors of staged files cross the channel."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_data.rows.errors import FileError
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_runtime.channel.staged_files import (
    StagedFileError,
    decode_read_error,
    encode_read_error,
)


def transfer_read_error(path: Path) -> FileError | ExternalSystemUnavailable:
    with pytest.raises(OSError) as raised:
        path.read_bytes()
    return decode_read_error(encode_read_error(raised.value))


def test_missing_staged_file_is_permanent_unless_all_files_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "sha256" / "81" / "8121"
    away = transfer_read_error(path)
    assert isinstance(away, ExternalSystemUnavailable)
    assert away.neighbour == f"the folder {tmp_path / 'sha256'}"
    (tmp_path / "sha256").mkdir()
    missing = transfer_read_error(path)
    assert isinstance(missing, StagedFileError) and missing.is_permanent
    assert str(missing).startswith(f"the staged file {path} is missing, so no new worker process")


def test_unreadable_staged_file_is_no_permanent_error(tmp_path: Path) -> None:
    unreadable = transfer_read_error(tmp_path)
    assert isinstance(unreadable, StagedFileError) and not unreadable.is_permanent
    assert "Is a directory" in str(unreadable)
