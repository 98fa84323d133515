"""State stores of a process, one for each key shard (the keys with the same hash). The stores stay
open between bundles.

The stores of a scheduler loop (a scheduler inside a Spark task) also hold the loop's uncommitted
changes in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from beam_runner_engine.keyed.cells import CellDelta, CellId, scan_with_changes

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state.compaction import compact_segments
from beam_runner_data.state.merges import StateMerge, StateMergeRunner
from beam_runner_data.state.store import ShardStore

_KEPT_STORES = 64


class MergingStore:
    """State store of a key shard whose commits also start and adopt background merges of large
    segments.

    Args:
        segments: the committed segments, oldest first.
        merges: the background runner of larger merges; None makes commits run them.
    """

    def __init__(
        self, folder: Path, segments: tuple[Segment, ...], merges: StateMergeRunner | None = None
    ) -> None:
        self._folder = folder
        self._store = ShardStore(folder, segments)
        self._merges = merges
        self._merge: StateMerge | None = None
        self.read_values = self._store.read_values
        self.scan_subkeys = self._store.scan_subkeys

    @property
    def may_result_from_split(self) -> bool:
        """Whether an update may have created the shard by splitting another key shard. If so, the
        first bundle of the new shard may not have run.
        """
        return self._store.may_result_from_split

    def set_segments(self, segments: tuple[Segment, ...]) -> None:
        """Sets the segments to read; segments that stay in the list stay open."""
        if self._store.segments != segments:
            self._store.advance_to_commit(StateCommit(segments))

    def write_commit(self, deltas: Mapping[CellId, CellDelta], name: str) -> StateCommit:
        """Writes a bundle's changes, and adopts the merges that finished since the last commit."""
        merge = self._merge
        keep = 0 if merge is None else merge.count_needed_segments(self._store.segments)
        commit = self._store.write_commit(deltas, name, keep=keep)
        if merge is not None and merge.is_done:
            commit = merge.apply_merge_to_commit(commit, f"{name}-merged")
            self._merge = None
        self._store.advance_to_commit(commit)
        plan = None if self._merge else self._store.plan_compaction()
        if plan is None:
            return commit
        if self._merges is not None:
            self._merge = self._merges.start_merge(plan)
            return commit
        commit = compact_segments(self._folder, plan, f"{name}-merged").replace_segments(
            commit.segments
        )
        self._store.advance_to_commit(commit)
        if all(segment.path != name for segment in commit.segments):
            # Delete the merged file. No commit refers to the file, so no other code would delete
            # it.
            (self._folder / name).unlink(missing_ok=True)
        return commit

    def close(self) -> None:
        """Closes all segment files of the store."""
        if self._merge is not None:
            self._merge.discard_merge()
        self._store.close()


class ShardStores:
    """State stores of the key shards that this process has used recently.

    Args:
        folder: the job's folder.
        own: the subfolder of this process for uncommitted files.
    """

    def __init__(self, folder: Path, own: str = "process") -> None:
        self._folder = folder
        self._merges = StateMergeRunner(folder, own)
        self._stores: dict[tuple[str, int], MergingStore] = {}

    def open(self, stage: str, shard: int, segments: tuple[Segment, ...]) -> MergingStore:
        """Returns the store of a shard, set to exactly these segments."""
        store = self._stores.pop((stage, shard), None)
        if store is None:
            store = MergingStore(self._folder, segments, self._merges)
        store.set_segments(segments)
        while len(self._stores) >= _KEPT_STORES:
            self._stores.pop(next(iter(self._stores))).close()
        self._stores[stage, shard] = store
        return store


class SchedulerLoopStores:
    """State stores of one scheduler loop: a scheduler that runs inside a Spark task.

    The loop holds the changes of its bundles in memory and writes them later, together. Bundles
    open stores and read them. The loop decides about a bundle's changes, by `accept_changes`,
    `flush_changes` and `write_last_changes`, one at a time.

    Args:
        folder: the job's folder.
        segments: the initial state of the loop.
    """

    def __init__(
        self, folder: Path, segments: Mapping[tuple[str, int], tuple[Segment, ...]]
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._stores: dict[tuple[str, int], SchedulerLoopStore] = {}
        self._flushed: dict[tuple[str, int], StateCommit] = {}

    def open(self, stage: str, shard: int, segments: tuple[Segment, ...]) -> SchedulerLoopStore:
        """Returns the state store of a key shard, which has all changes of earlier bundles in this
        scheduler loop.
        """
        store = self._stores.get((stage, shard))
        if store is None:
            begin = self._segments.get((stage, shard), ())
            store = self._stores[stage, shard] = SchedulerLoopStore(self._folder, begin)
        return store

    def has_open_store(self, stage: str, shard: int) -> bool:
        """Returns whether a bundle has opened the store of a shard."""
        return (stage, shard) in self._stores

    def accept_changes(self, stage: str, shard: int) -> None:
        """Accepts the changes of a shard's last bundle, so that later bundles read the changed
        state.
        """
        self._stores[stage, shard].accept_changes()

    def flush_changes(self, name: str) -> dict[tuple[str, int], StateCommit]:
        """Writes the accepted changes to files with the prefix ``name``, and returns the commits by
        stage and shard.

        Bundles may run at the same time, and their view doesn't change. If a file can't be written,
        nothing is flushed, and the method removes the files so far. The flush can be repeated under
        another name.
        """
        changed = [(place, store) for place, store in self._stores.items() if store.accepted]
        try:
            self._flushed = {
                place: _write_changes(
                    self._folder, store.segments, store.accepted, f"{name}-state-{number}"
                )
                for number, (place, store) in enumerate(changed)
            }
        except BaseException:
            for path in self._folder.glob(f"{name}-state-*"):
                with suppress(OSError):
                    path.unlink()
            raise
        return self._flushed

    def adopt_flushed_changes(self) -> None:
        """Lets later bundles read the flushed changes as committed state. Call it only while no bundle runs."""
        for place, commit in self._flushed.items():
            self._stores[place].set_committed_state(commit)
        self._flushed = {}

    def write_last_changes(self, stage: str, shard: int, name: str) -> StateCommit:
        """Writes the changes of a shard's last bundle, on top of the flushed changes."""
        store = self._stores[stage, shard]
        flushed = self._flushed.get((stage, shard), StateCommit(store.segments))
        return _write_changes(self._folder, flushed.segments, store.pending, name)


class SchedulerLoopStore:
    """State store of a key shard in a scheduler loop: the committed state, with the changes of the
    loop's bundles on top.

    Attributes:
        segments: the committed state.
        accepted: the changes of bundles since the commit.
        pending: the changes of the last bundle, if the loop has not accepted them.
    """

    def __init__(self, folder: Path, segments: tuple[Segment, ...]) -> None:
        self._base = ShardStore(folder, segments)
        self.segments = segments
        self.accepted: dict[CellId, CellDelta] = {}
        self.pending: Mapping[CellId, CellDelta] = {}

    @property
    def may_result_from_split(self) -> bool:
        """Whether an update may have created the shard by splitting another key shard. If so, the
        first bundle of the new shard may not have run.
        """
        return self._base.may_result_from_split

    def read_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values at a subkey (map or sort key) of a state cell; None if the subkey is
        absent.
        """
        delta = self.accepted.get(cell)
        if delta is None:
            return self._base.read_values(cell, subkey)
        before = None if delta.deletes_subkey(subkey) else self._base.read_values(cell, subkey)
        added = delta.added.get(subkey)
        return before if added is None else [*(before or ()), *added]

    def scan_subkeys(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Yields the subkeys from ``start`` to before ``end``, ascending."""
        delta = self.accepted.get(cell)
        base = self._base.scan_subkeys(cell, start, end)
        return base if delta is None else scan_with_changes(base, delta, start, end)

    def write_commit(self, deltas: Mapping[CellId, CellDelta], name: str) -> StateCommit | None:
        """Holds a bundle's changes as pending, until the scheduler loop accepts or writes the
        changes.
        """
        self.pending = deltas
        return None

    def accept_changes(self) -> None:
        """Accepts the pending changes of the last bundle."""
        for cell, delta in self.pending.items():
            before = self.accepted.get(cell)
            self.accepted[cell] = delta if before is None else before.combine_with(delta)
        self.pending = {}

    def set_committed_state(self, commit: StateCommit) -> None:
        """Replaces the committed state by a new one, which includes all accepted changes."""
        self._base.advance_to_commit(commit)
        self.segments = commit.segments
        self.accepted = {}


def _write_changes(
    folder: Path, segments: tuple[Segment, ...], deltas: Mapping[CellId, CellDelta], name: str
) -> StateCommit:
    store = MergingStore(folder, segments)
    try:
        return store.write_commit(deltas, name)
    finally:
        store.close()
