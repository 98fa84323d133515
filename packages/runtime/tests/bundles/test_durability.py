"""Tests that the files of a reply are on the disk before the reply is sent: a power cut loses only uncommitted data."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.fetching.machine_files import MachineFileCache
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.state.segments import open_segment
from beam_runner_data.state.store import ShardStore
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.scheduler.events import BundleDone, FailureKind
from beam_runner_model.buffers import BufferKind
from beam_runner_storage.stores.spec import NO_STORE
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from sample_buffers import buffer
from sample_chunks import keyed_chunk
from small_plans import bundle_of, plan_of, stage

from beam_runner_runtime.bundles.durability import CommittedFiles
from beam_runner_runtime.bundles.neighbour_wait import OutageRetry
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import (
    BundleReply,
    NeighbourWaitStatus,
    RunBundle,
    RunLoop,
)
from beam_runner_runtime.channel.wire import decode_message, encode_message


class Disk:
    """The synced part of a folder: file contents and directory entries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.syncs = 0

    def fsync(self, descriptor: int) -> None:
        self.syncs += 1
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            for file in path.iterdir():
                if file.is_file():
                    self.names[str(file.relative_to(self.folder))] = file.stat().st_ino
        else:
            self.contents[path.stat().st_ino] = path.read_bytes()

    def after_a_power_cut(self, place: Path) -> Path:
        """Copies the files that the next server finds."""
        for name, inode in self.names.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(self.contents.get(inode, b""))
        return place


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    (tmp_path / "job").mkdir()
    made = Disk(tmp_path / "job")
    monkeypatch.setattr(os, "fsync", made.fsync)
    return made


def reply_of(folder: Path, name: str, state: tuple[Any, ...] = ()) -> BundleReply:
    """Returns the reply of a bundle that wrote a row file and state."""
    output = RowBufferWriter(buffer("b", BufferKind.STORED), 1, folder, name)
    create_row_converter(BufferKind.SIDE_MULTIMAP, 1, 0, output.write).write(
        keyed_chunk([b"a" * 100_000])
    )
    cell = CellId("s", name.encode(), b"")
    commit = ShardStore(folder, state).write_commit(
        {cell: CellDelta(added={b"": (b"1",)})}, f"{name}-state"
    )
    return BundleReply(BundleDone(1, 1, output.close()), commit, ())


def check(folder: Path, reply: BundleReply) -> None:
    for output in reply.done.outputs:
        assert len(list(read_referenced_rows(folder, output.data.ref))) == 1
    assert reply.state is not None
    for segment in reply.state.segments:
        assert list(open_segment(folder, segment).read_entries())


def test_files_of_committed_reply_survive_power_failure(disk: Disk, tmp_path: Path) -> None:
    files = CommittedFiles(FileCache(disk.folder, durable=True), {})
    first = reply_of(disk.folder, "1-1-1")
    files.persist_entries([first])
    check(disk.after_a_power_cut(tmp_path / "later"), first)
    assert disk.syncs == 3
    second = reply_of(disk.folder, "1-2-1", first.state.segments if first.state else ())
    files.persist_entries([second])
    assert disk.syncs == 6
    check(disk.after_a_power_cut(tmp_path / "much later"), second)


def test_files_that_are_already_committed_are_not_synced_to_disk_again(disk: Disk) -> None:
    reply = reply_of(disk.folder, "1-1-1")
    assert reply.state is not None
    files = CommittedFiles(FileCache(disk.folder, durable=True), {})
    order: Any = attrs.evolve(_ORDER, state=reply.state.segments)
    files.record_order_files(order)
    files.persist_entries([attrs.evolve(reply, done=BundleDone(1, 1))])
    assert disk.syncs == 0
    files.record_order_files(RunLoop(1, "1-loop1", b"", {("stage", 0): reply.state.segments}))
    files.persist_entries([attrs.evolve(reply, done=BundleDone(1, 1)), reply])
    assert disk.syncs == 2


def test_bundle_of_job_that_cannot_resume_does_not_sync_files_to_disk(disk: Disk) -> None:
    CommittedFiles(FileCache(disk.folder, durable=False), {}).persist_entries(
        [reply_of(disk.folder, "1-1-1")]
    )
    assert disk.syncs == 0


def test_bundle_output_file_that_cannot_be_written_is_reported(disk: Disk) -> None:
    reply = reply_of(disk.folder, "1-1-1")
    shutil.rmtree(disk.folder)
    with pytest.raises(OSError, match="No such file"):
        CommittedFiles(FileCache(disk.folder, durable=True), {}).persist_entries([reply])


def test_stage_that_needs_data_store_fails_without_data_store(tmp_path: Path) -> None:
    plan = plan_of([stage("one"), stage("two")])
    (tmp_path / "job").mkdir()
    cache = FileCache(tmp_path / "job", MachineFileCache(NO_STORE.open_store(), tmp_path))
    files = CommittedFiles(cache, plan.stages)
    files.fetch_inputs(RunBundle(bundle_of(stage="two"), "1-1-1"))
    reply = reply_of(tmp_path / "job", "1-1-1")
    for told, reason in (
        (
            attrs.evolve(reply, state=None),
            "bytes exceed the maximum that a bundle can report without a data store",
        ),
        (reply, "what is grouped by key, or kept by user code, lies in files between bundles"),
    ):
        ended = files.persist_reply(told)
        assert isinstance(ended, BundleFailure)
        assert ended.failure is not None
        assert ended.failure.transform == plan.stages["two"].spec.name
        assert f"{reason}, but the machines share no storage" in ended.failure.summary
        assert "--data-dir" in ended.failure.summary
    little = BundleReply(BundleDone(1, 1), None, ())
    assert files.persist_reply(little) == little


_ORDER = RunBundle(bundle=None, name="1-1-1")  # type: ignore[arg-type]


class Away(FileCache):
    """A store that raises these errors in order before it stores files."""

    def __init__(self, folder: Path, *errors: Exception) -> None:
        super().__init__(folder)
        self.errors = list(errors)
        self.kept: list[str] = []

    def persist_files(self, names: Sequence[str], *, hold: bool = False) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.kept += names


STORE = ExternalSystemUnavailable("the data store at s3://b", "503 SlowDown")
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("error", "neighbour"), [(STORE, "the data store at s3://b"), (FULL, "the disk of ")]
)
def test_bundle_reply_during_long_outage_fails_with_name_of_service(
    tmp_path: Path, error: Exception, neighbour: str
) -> None:
    reply = reply_of(tmp_path, "1-1-1")
    broken = CommittedFiles(Away(tmp_path, error), {}).persist_reply(reply)
    assert isinstance(broken, BundleFailure)
    assert broken.kind is FailureKind.UNAVAILABLE
    assert broken.neighbour.startswith(neighbour)
    assert decode_message(encode_message(broken)) == broken


def test_bundle_reply_during_short_outage_of_service_is_sent_later(tmp_path: Path) -> None:
    told: list[NeighbourWaitStatus] = []
    wait = OutageRetry(told.append, 60.0, lambda: True, tmp_path)
    away = Away(tmp_path, FULL, STORE)
    reply = reply_of(tmp_path, "1-1-1")
    assert CommittedFiles(away, {}, wait).persist_reply(reply) == reply
    assert len(away.kept) > 0
    disk = NeighbourWaitStatus(f"the disk of {tmp_path}", "No space left on device")
    store = NeighbourWaitStatus("the data store at s3://b", "503 SlowDown")
    assert told == [disk, store, NeighbourWaitStatus()]
