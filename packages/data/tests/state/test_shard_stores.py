"""Tests of the stores of key shards in a process: large merges run concurrently, and no unnamed file is left."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from beam_runner_engine.keyed.cells import CellDelta, CellId
from waiting import wait_until

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state import merges
from beam_runner_data.state.compaction import NEIGHBOURS
from beam_runner_data.state.shard_stores import MergingStore, ShardStores
from beam_runner_data.state.store import MERGED_IN_COMMIT

CELL = CellId("value", b"key", b"")
OWN = "process-here-1"
Segments = tuple[Segment, ...]


def delta(number: int) -> dict[CellId, CellDelta]:
    """Returns a delta so large that no commit merges it."""
    value = bytes([number]) * MERGED_IN_COMMIT
    return {CELL: CellDelta(removed=frozenset({b"%d" % number}), added={b"%d" % number: (value,)})}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def remove_unnamed(folder: Path, before: Segments, commit: StateCommit) -> None:
    """Removes unnamed files, as the server does after a commit."""
    for segment in set(before) - set(commit.segments):
        (folder / segment.path).unlink()


def values(store: MergingStore) -> dict[bytes, int]:
    return {subkey: found[0][0] for subkey, found in store.scan_subkeys(CELL, b"", None)}


def wait_for_merge(folder: Path, seconds: float = 60) -> str:
    wait_until(
        lambda: not any(thread.name == "state merge" for thread in threading.enumerate()), seconds
    )
    (found,) = (name for name in files(folder) if name.startswith(OWN))
    return found


def test_commit_without_compaction_threads_compacts_immediately_and_lists_new_segments(
    tmp_path: Path,
) -> None:
    segments: Segments = ()
    merged = False
    for number in range(20):
        store = MergingStore(tmp_path, segments)
        before = segments
        changed = {CELL: CellDelta(removed=frozenset({b""}), added={b"": (b"." * (1 << 20),)})}
        commit = store.write_commit(changed, f"1-{number}-1")
        segments = commit.segments
        store.close()
        merged = merged or any(segment.path.endswith("-merged") for segment in segments)
        remove_unnamed(tmp_path, before, commit)
        assert files(tmp_path) == {segment.path for segment in segments}
    assert merged


def eight_commits(stores: ShardStores, folder: Path) -> Segments:
    segments: Segments = ()
    for number in range(NEIGHBOURS):
        commit = stores.open("stage", 0, segments).write_commit(delta(number), f"1-{number}-1")
        remove_unnamed(folder, segments, commit)
        segments = commit.segments
    return segments


def test_result_of_large_compaction_is_applied_by_later_commit(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path, OWN)
    segments = eight_commits(stores, tmp_path)
    assert len(segments) == NEIGHBOURS
    wait_for_merge(tmp_path)
    store = stores.open("stage", 0, segments)
    commit = store.write_commit(delta(99), "1-99-1")
    assert [segment.path for segment in commit.segments] == ["1-99-1-merged", "1-99-1"]
    remove_unnamed(tmp_path, segments, commit)
    assert files(tmp_path) == {segment.path for segment in commit.segments}
    assert values(store) == {b"%d" % n: n for n in (*range(NEIGHBOURS), 99)}


def test_commits_continue_during_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr(
        merges.StateMerge, "run_merge", lambda merge, name: begun.append((merge, name))
    )
    stores = ShardStores(tmp_path, OWN)
    segments = eight_commits(stores, tmp_path)
    monkeypatch.undo()
    for number in range(20, 24):
        commit = stores.open("stage", 0, segments).write_commit(delta(number), f"1-{number}-1")
        segments = commit.segments
    while not begun:
        time.sleep(0.01)
    assert len(segments) == NEIGHBOURS + 4, "segments of a running merge are unchanged"
    ((merge, name),) = begun
    merge.run_merge(name)
    store = stores.open("stage", 0, segments)
    commit = store.write_commit(delta(30), "1-30-1")
    assert len(commit.segments) == 6
    assert commit.segments[0].path == "1-30-1-merged"
    assert values(store) == {b"%d" % n: n for n in (*range(NEIGHBOURS), *range(20, 24), 30)}


def test_compaction_of_segments_compacted_by_another_process_is_dropped(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path, OWN)
    segments = eight_commits(stores, tmp_path)
    name = wait_for_merge(tmp_path)
    other = MergingStore(tmp_path, segments)
    commit = other.write_commit(delta(50), "2-50-1")
    assert commit.segments[0].path == "2-50-1-merged"
    other.close()
    remove_unnamed(tmp_path, segments, commit)
    store = stores.open("stage", 0, commit.segments)
    after = store.write_commit(delta(51), "1-51-1")
    assert after.segments == (*commit.segments, *after.segments[-1:])
    assert name not in files(tmp_path)
    assert len(values(store)) == NEIGHBOURS + 2


def test_closed_store_deletes_result_of_unused_compaction(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path, OWN)
    segments = eight_commits(stores, tmp_path)
    wait_for_merge(tmp_path)
    stores.open("stage", 0, segments).close()
    assert files(tmp_path) == {segment.path for segment in segments}


def test_failed_compaction_changes_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(merges, "compact_segments", fail)
    stores = ShardStores(tmp_path, OWN)
    segments = eight_commits(stores, tmp_path)
    wait_until(lambda: "Can't merge state: no space left on device" in caplog.text)
    commit = stores.open("stage", 0, segments).write_commit(delta(20), "1-20-1")
    assert commit.segments[:-1] == segments
