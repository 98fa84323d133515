"""Tests of `WriteFilesExactlyOnce`: names, marks and refusals of commits, in a folder and in S3."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from azurite_server import azurite_server
from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.spec import parse_user_store
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from moto_server import BUCKET, make_store, moto_server

from beam_spark_io import WriteFilesExactlyOnce
from beam_spark_io.exactly_once.protocols import (
    CommitConflict,
    CommitId,
    CommitWindow,
    SinkUnavailable,
)
from beam_spark_io.files import commits as file_commits
from beam_spark_io.files.commits import FileCommitter
from beam_spark_io.files.sink import FileSink, name_folder, name_window

ELEMENTS = [{"a": 1}, {"a": 2}]
HOUR = CommitWindow("hour", 0)
HDFS = "BEAM_HDFS"
"""Environment variable with the URL of a folder in an HDFS, if an HDFS exists."""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Returns the address of a server with the S3 protocol."""
    with moto_server() as address:
        yield address


@pytest.fixture(scope="module")
def azurite() -> Iterator[Mapping[str, str]]:
    """Returns the environment variables of clients of an emulator of Azure's store, if one is installed."""
    with azurite_server() as environment:
        yield environment


@pytest.fixture(params=["folder", "file", "s3", "gs", "az", "hdfs"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the URL of a store, for each kind of store."""
    folder = tmp_path / "a % folder"
    if request.param == "hdfs":
        if HDFS not in os.environ:
            pytest.skip(f"NOT RUN: {HDFS} names no HDFS, which `nox -s hdfs` has")
        return f"{os.environ[HDFS]}/{tmp_path.name}-{secrets.token_hex(4)}"
    if request.param in ("folder", "file"):
        return str(folder) if request.param == "folder" else folder.as_uri()
    if request.param == "az":
        environment = request.getfixturevalue("azurite")
    else:
        environment = make_store(request.getfixturevalue("s3"), request.param)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def store(url: str) -> FileStore:
    return parse_user_store(url).open_store()


def make_committer(url: str, run: str = "run") -> FileCommitter:
    return FileSink(url, "jsonl", 4).create_committer(run, 3)


def make_id(number: int, digest: bytes = b"", window: CommitWindow | None = None) -> CommitId:
    return CommitId("run", 3, number, digest or bytes([number]), window)


def list_files(store: FileStore) -> list[str]:
    return sorted(name for name in store.list_names() if not name.startswith("_beam/"))


def read(store: FileStore, name: str) -> list[Any]:
    return [json.loads(line) for line in store.read_file(name).splitlines()]


def test_repeated_commits_write_same_files(url: str, store: FileStore) -> None:
    expected = [f"run-00003-{number:09}.jsonl" for number in (1, 2)]
    for _ in range(2):
        committer = make_committer(url)
        names = [committer.commit(make_id(number), ELEMENTS) for number in (1, 2)]
        assert names == expected
    assert list_files(store) == expected
    assert read(store, names[1]) == ELEMENTS


def test_window_is_a_folder_with_one_success_file(url: str, store: FileStore) -> None:
    sink = FileSink(url, "jsonl", 4)
    name = make_committer(url).commit(make_id(1, window=HOUR), ELEMENTS)
    assert name == "hour/run-00003-000000001.jsonl"
    for _ in range(2):
        assert sink.complete_window("run", "hour") == "hour/_SUCCESS"
    assert list_files(store) == ["hour/_SUCCESS", name]
    assert store.read_file("hour/_SUCCESS") == b""


def test_end_of_run_without_windows_writes_no_success_file(url: str, store: FileStore) -> None:
    name = make_committer(url).commit(make_id(1), ELEMENTS)
    assert FileSink(url, "jsonl", 4).complete_window("run", None) is None
    assert list_files(store) == [name]


@pytest.mark.parametrize(
    ("number", "text"), [(2, "has other elements"), (4, "marks are lost"), (1, "other elements")]
)
def test_file_commit_that_contradicts_commit_marks_writes_nothing(
    url: str, store: FileStore, number: int, text: str
) -> None:
    """Tries an old copy of the state, a lost commit mark, and the run of another job."""
    committer = make_committer(url)
    for known in (1, 2):
        committer.commit(make_id(known), ELEMENTS)
    before = {name: store.read_file(name) for name in store.list_names()}
    with pytest.raises(CommitConflict, match=text):
        make_committer(url).commit(make_id(number, b"other"), [{"a": 3}])
    assert {name: store.read_file(name) for name in store.list_names()} == before


def test_file_commit_after_loss_of_commit_marks_is_refused(url: str, store: FileStore) -> None:
    make_committer(url).commit(make_id(1), ELEMENTS)
    store.delete_files([name for name in store.list_names() if name.startswith("_beam/")])
    with pytest.raises(CommitConflict, match="marks are lost"):
        make_committer(url).commit(make_id(2), ELEMENTS)


def test_file_commit_from_old_copy_of_state_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_commits, "_MARKS_KEPT", 5)
    committer = make_committer(str(tmp_path))
    for number in range(1, 16):
        committer.commit(make_id(number), ELEMENTS)
    marks = sorted(int(mark.name.split("-")[1]) for mark in (tmp_path / "_beam/run").iterdir())
    assert marks == [1, *range(11, 16)]
    for number in (1, 5, 11):
        with pytest.raises(CommitConflict):
            make_committer(str(tmp_path)).commit(make_id(number, b"other"), ELEMENTS)
    assert len(list(tmp_path.glob("*.jsonl"))) == 15


@pytest.mark.parametrize("step", ["create_file", "put_file"])
def test_suspended_committer_that_continues_writes_same_file(
    url: str, store: FileStore, step: str
) -> None:
    """The committer freezes before it writes the commit mark or the file, while another committer
    commits twice.
    """
    frozen, other = make_committer(url), make_committer(url)
    own: Any = frozen._store

    def continue_after_others(*arguments: Any) -> Any:
        delattr(own, step)
        for number in (1, 2):
            other.commit(make_id(number), ELEMENTS)
        return getattr(own, step)(*arguments)

    setattr(own, step, continue_after_others)
    frozen.commit(make_id(1), ELEMENTS)
    expected = [f"run-00003-{number:09}.jsonl" for number in (1, 2)]
    assert list_files(store) == expected
    assert [read(store, name) for name in expected] == [ELEMENTS, ELEMENTS]


def test_unfinished_files_of_the_window_and_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "hour").mkdir()
    (tmp_path / "later").mkdir()
    suffix = "jsonl.0123456789abcdef"
    orphan = tmp_path / "hour" / f".run-00003-000000001.{suffix}"
    others = [
        tmp_path / "hour" / f".other-00003-000000001.{suffix}",
        tmp_path / "later" / f".run-00003-000000002.{suffix}",
        tmp_path / f".run-00003-000000003.{suffix}",
        tmp_path / "hour" / "run-00003-000000001.jsonl",
    ]
    for file in (orphan, *others):
        file.touch()
    FileSink(str(tmp_path), "jsonl", 4).complete_window("run", "hour")
    assert not orphan.exists()
    assert all(file.exists() for file in others)


def fail_with(error: Exception) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [StoreError("s3://b failed to write x: AccessDenied"), OSError(28, "No space left")]
)
def test_file_commit_waits_for_unavailable_store_and_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(FolderStore, "put_file", fail_with(error))
    with pytest.raises(SinkUnavailable, match=r"AccessDenied|No space left"):
        make_committer(str(tmp_path)).commit(make_id(1), ELEMENTS)


def test_window_completion_waits_for_unavailable_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FolderStore, "create_file", fail_with(ExternalSystemUnavailable("s", "gone"))
    )
    with pytest.raises(SinkUnavailable, match="gone"):
        FileSink(str(tmp_path), "jsonl", 4).complete_window("run", "hour")


def test_file_sink_writes_rows_like_mappings(tmp_path: Path) -> None:
    rows = [beam.Row(**element) for element in ELEMENTS]
    name = make_committer(str(tmp_path)).commit(make_id(1), rows)
    assert read(parse_user_store(str(tmp_path)).open_store(), name) == ELEMENTS


def test_file_sink_distributes_elements_to_all_shards() -> None:
    sink = FileSink("/folder", "jsonl", 3)
    assert {sink.select_shard(element) for element in range(6)} == {0, 1, 2}


def test_windows_are_named_by_their_bounds() -> None:
    assert name_window(IntervalWindow(0, 3600)) == "19700101T000000Z-19700101T010000Z"
    assert name_window(IntervalWindow(0, 0.5)) == "19700101T000000Z-19700101T000000.500000Z"
    assert name_window(GlobalWindow()) == "all"
    with pytest.raises(TypeError, match="window of type str: set by_window"):
        name_window("window")


@pytest.mark.parametrize("name", ["", "/x", "x/", "../x", "a/.x", "_x", "a?b", "a//b"])
def test_window_name_that_is_no_valid_folder_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="by_window names the window"):
        name_folder(lambda _: name, GlobalWindow())
    assert name_folder(lambda _: "date=2027-01-01/hour=05", GlobalWindow()).startswith("date")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("/folder", "xml"), "expected one of jsonl, csv, parquet, avro"),
        (("ftp://host/folder", "csv"), "ftp:// isn't a supported data store"),
        (("/folder", "csv", 60, 1, "", None, 0), "max_bytes is 0"),
    ],
)
def test_transform_refuses_wrong_arguments(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WriteFilesExactlyOnce(*arguments)
