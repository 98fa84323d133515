"""Tests of a committer of files that is suspended while another one commits, in each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam_spark_io.exactly_once.protocols import CommitId
from beam_spark_io.files.formats import FORMATS
from beam_spark_io.files.sink import FileSink

ELEMENTS = [{"a": 1}, {"a": 2}]
LATER_ELEMENTS = [{"a": 3}]
FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")


def read_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("step", ["create_file", "put_file"])
@pytest.mark.parametrize("format", list(FORMATS))
def test_suspended_committer_that_continues_leaves_files_of_the_other_unchanged(
    tmp_path: Path, format: str, step: str
) -> None:
    sink = FileSink(str(tmp_path), format, 1)
    suspended, other = (sink.create_committer("run", 0) for _ in range(2))
    own: Any = suspended._store
    written: dict[str, bytes] = {}

    def continue_after_others(*arguments: Any) -> Any:
        delattr(own, step)
        other.commit(FIRST, ELEMENTS)
        other.commit(SECOND, LATER_ELEMENTS)
        written.update(read_files(tmp_path))
        return getattr(own, step)(*arguments)

    setattr(own, step, continue_after_others)
    name = suspended.commit(FIRST, ELEMENTS)
    assert name in written and len(written) == 2
    assert read_files(tmp_path) == written
