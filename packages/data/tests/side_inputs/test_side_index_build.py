"""Tests that the index of a side input is built once, also if a process that builds it dies."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind
from sample_buffers import buffer
from sample_chunks import GLOBAL, keyed_chunk

from beam_runner_data.rows.errors import FileError
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.side_inputs import side_index_build
from beam_runner_data.side_inputs.side_index import (
    SideInputIndex,
    get_indexes_folder,
    remove_indexes,
)
from beam_runner_data.side_inputs.side_index_build import open_index

FORK = multiprocessing.get_context("fork")


def data(folder: Path, name: str, *values: bytes) -> Data:
    output = RowBufferWriter(buffer("b", BufferKind.SIDE_MULTIMAP), 1, folder, name)
    create_row_converter(BufferKind.SIDE_MULTIMAP, 1, 0, output.write).write(keyed_chunk(values))
    (out,) = output.close()
    return out.data


def large(folder: Path, name: str) -> Data:
    return data(folder, name, b"a" * 30_000, b"b" * 30_000, b"a!")


def built(folder: Path) -> list[Path]:
    return [path for path in folder.glob("side/*/*") if path.is_dir()]


def read_a(index: SideInputIndex) -> bytes:
    values = index.read_values(GLOBAL, b"a")
    assert isinstance(values, bytes)
    return values


def test_side_input_index_returns_values_from_written_files(tmp_path: Path) -> None:
    one = large(tmp_path, "1")
    index = open_index(tmp_path, "s", [one, data(tmp_path, "2", b"a?")])
    assert read_a(index) == b"a" * 30_000 + b"a!" + b"a?"
    assert index.read_values(b"another window", b"a") == b""
    (path,) = built(tmp_path)
    assert sum(file.stat().st_size for file in path.iterdir()) < 1500


def test_side_input_index_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = large(tmp_path, "1")
    open_index(tmp_path, "s", [one])

    def no_second(*_: Any) -> None:
        raise AssertionError("built twice")

    monkeypatch.setattr(side_index_build, "_build_index", no_second)
    assert read_a(open_index(tmp_path, "s", [one])) == b"a" * 30_000 + b"a!"


def in_other_processes(count: int, work: Callable[[], None]) -> list[int | None]:
    processes = [FORK.Process(target=work) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    return [process.exitcode for process in processes]


def test_side_input_index_is_built_once_by_many_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = large(tmp_path, "1")
    real = side_index_build._build_index

    def counting(folder: Path, path: Path, data: Any) -> None:
        with (tmp_path / "builds").open("ab") as file:
            file.write(b"x")
        real(folder, path, data)

    monkeypatch.setattr(side_index_build, "_build_index", counting)
    assert in_other_processes(4, lambda: read_a(open_index(tmp_path, "s", [one]))) == [0] * 4
    assert (tmp_path / "builds").read_bytes() == b"x"


def test_side_input_index_is_built_by_next_process_if_builder_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = large(tmp_path, "1")
    with monkeypatch.context() as dying:
        dying.setattr(side_index_build._IndexBuilder, "write_index", lambda self: os._exit(9))
        assert in_other_processes(1, lambda: read_a(open_index(tmp_path, "s", [one]))) == [9]
    assert [path.suffix for path in built(tmp_path)] == [".part"]
    assert read_a(open_index(tmp_path, "s", [one])) == b"a" * 30_000 + b"a!"
    assert [path.suffix for path in built(tmp_path)] == [""]


def test_failed_build_of_side_input_index_leaves_no_file(tmp_path: Path) -> None:
    one = large(tmp_path, "1")
    (tmp_path / "1.arrow").unlink()
    with pytest.raises(FileError):
        open_index(tmp_path, "s", [one])
    assert built(tmp_path) == []


def test_side_input_index_is_deleted_with_its_data(tmp_path: Path) -> None:
    index = open_index(tmp_path, "s", [large(tmp_path, "1"), large(tmp_path, "2")])
    remove_indexes(tmp_path, "2.arrow")
    assert len(built(tmp_path)) == 1
    remove_indexes(tmp_path, "1.arrow")
    (tmp_path / "1.arrow").unlink()
    assert built(tmp_path) == []
    assert not get_indexes_folder(tmp_path, "1.arrow").exists()
    with pytest.raises(FileError):
        read_a(index)


def test_older_side_input_index_versions_are_deleted_after_new_version(tmp_path: Path) -> None:
    parts = [large(tmp_path, str(number)) for number in range(6)]
    for count in range(1, 7):
        assert read_a(open_index(tmp_path, "s", parts[:count])).count(b"!") == count
    assert len(built(tmp_path)) == 3
    assert read_a(open_index(tmp_path, "s", parts[:1])).count(b"!") == 1


def everything(index: SideInputIndex) -> list[bytes]:
    answers = [index.read_values(GLOBAL, key) for key in (b"a", b"b", b"absent")]
    answers += [index.read_keys(GLOBAL), index.read_groups(GLOBAL)]
    return [
        whole if isinstance(whole, bytes) else b"".join(map(whole.piece, range(whole.pieces)))
        for whole in answers
    ]


def test_side_input_index_with_damaged_byte_raises_error(tmp_path: Path) -> None:
    """The damage is in the index or in the data that the index refers to."""
    parts = [large(tmp_path, "1"), data(tmp_path, "2", b"a?", b"c")]
    right = everything(open_index(tmp_path, "s", parts))
    (path,) = built(tmp_path)
    told = 0
    for file in (*path.iterdir(), tmp_path / "1.arrow"):
        content = file.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 60)):
            changed = bytearray(content)
            changed[at] ^= 1 << at % 8
            file.write_bytes(changed)
            try:
                found = everything(SideInputIndex(tmp_path, path))
            except FileError as error:
                told += str(file) in str(error)
            else:
                assert found == right
        file.write_bytes(content)
    assert told > 200
    assert everything(SideInputIndex(tmp_path, path)) == right
