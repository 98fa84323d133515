"""GroupByKey for one key shard in one bundle: groups the input by key and window, and writes the changed state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Protocol

import attrs
import pyarrow as pa
from beam_runner_data.rows.columns import list_row_windows
from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.ports import CellStore, WindowMerger
from beam_runner_model.chunks import FlushBarrier, GroupChunk
from beam_runner_model.panes import encode_pane
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import ShardSummary

from beam_runner_runtime.bundles.checked_times import check_pane_timestamps
from beam_runner_runtime.channel.messages import RunBundle

_TOGETHER_BYTES = 16 << 20
_Columns = tuple[list[bytes], list[bytes], list[int], list[bytes]]


class KeyedStore(CellStore, Protocol):
    """Committed state of a key shard (hash partition of keys), with a method that writes the
    changes of a bundle.
    """

    @property
    def may_result_from_split(self) -> bool:
        """Whether an update may have created this key shard by splitting another key shard. In this
        case, the part possibly has had no bundle yet.
        """

    def write_commit(self, deltas: Mapping[CellId, CellDelta], name: str) -> StateCommit | None:
        """Writes a bundle's state changes to files whose paths start with ``name``, and returns the
        files. Returns None if the store holds the changes in memory until a later commit.
        """


class KeyedStoreProvider(Protocol):
    """Opens the state stores of key shards (hash partitions of keys)."""

    def open(self, stage: str, shard: int, segments: tuple[Segment, ...]) -> KeyedStore:
        """Returns the state store of a key shard. ``segments`` are the files with the committed state."""


@attrs.frozen
class ShardCommit:
    """Changes of one bundle to the state of the bundle's key shard.

    Attributes:
        summary: the shard's watermark holds and timer times after the bundle.
        state: files with the changes; None if the store holds the changes in memory until a later commit.
        dropped: number of values that arrived after their window expired or after the last firing
            of their trigger.
    """

    summary: ShardSummary
    state: StateCommit | None = None
    dropped: int = 0


class ShardGrouping:
    """GroupByKey of one bundle's input in one key shard: adds the input to the state, and emits the
    panes that are due.

    The caller must read all chunks of ``read_chunks`` before it calls ``commit_state``.

    Args:
        merger: SDK function that merges windows, for windows that the engine can't merge.
        checked_as: name of the stage for error messages, if watermark checks are enabled; otherwise
            None.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        order: RunBundle,
        stores: KeyedStoreProvider,
        merger: WindowMerger | None = None,
        checked_as: str | None = None,
    ) -> None:
        bundle = order.bundle
        assert bundle.shard is not None
        self._bundle = bundle
        self._strategy = strategy
        self._store = stores.open(bundle.stage, bundle.shard, order.state)
        self._grouper = TriggeredGrouper(
            strategy, self._store, merger, may_result_from_split=self._store.may_result_from_split
        )
        self._asks_sdk = merger is not None
        self._checked_as = checked_as

    def read_chunks(
        self, runs: Iterable[Iterable[pa.RecordBatch]]
    ) -> Iterator[GroupChunk | FlushBarrier]:
        """Yields the panes that fire, in the order of firing, for one part of the input after the
        other.

        Args:
            runs: input of the bundle in parts that don't share keys; at least one part, which can
                be empty.
        """
        panes = self._fire_panes(runs)
        # Collect all panes before the SDK processes them, to avoid a deadlock: a request to merge
        # windows could wait for output of the SDK that only this thread reads.
        return iter(list(panes)) if self._asks_sdk else panes

    def commit_state(self, name: str) -> ShardCommit:
        """Writes the shard's state changes to files whose paths start with ``name``."""
        commit = self._grouper.finish_bundle()
        state = self._store.write_commit(commit.deltas, name)
        return ShardCommit(commit.summary, state, commit.dropped)

    def _fire_panes(
        self, runs: Iterable[Iterable[pa.RecordBatch]]
    ) -> Iterator[GroupChunk | FlushBarrier]:
        bundle = self._bundle
        begin = CurrentTimes(
            bundle.input_watermark, bundle.processing_time, bundle.output_watermark
        )
        end = CurrentTimes(bundle.end_watermark, bundle.processing_time, bundle.output_watermark)
        for number, batches in enumerate(runs):
            if number:
                yield FlushBarrier()
            for columns in _merge_batches(batches):
                yield from self._convert_panes(self._grouper.process_elements(*columns, begin))
            yield from self._convert_panes(self._grouper.advance_time(end))

    def _convert_panes(self, groups: WindowPanes) -> Iterator[GroupChunk]:
        if self._checked_as is not None:
            check_pane_timestamps(
                groups, self._bundle.output_watermark, self._strategy, self._checked_as
            )
        return _split_by_pane(groups)


def _merge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[_Columns]:
    """Yields the keys, windows, timestamps and values of a bundle as one large batch, as Beam's
    Python runners do.

    Triggers see all elements of a batch together. Input above `_TOGETHER_BYTES` becomes several
    batches.
    """
    columns: _Columns = ([], [], [], [])
    size = 0
    for batch in batches:
        columns[0].extend(batch.column("key").to_pylist())
        columns[1].extend(list_row_windows(batch))
        columns[2].extend(batch.column("timestamp").to_pylist())
        columns[3].extend(batch.column("value").to_pylist())
        size += batch.nbytes
        if size > _TOGETHER_BYTES:
            yield columns
            columns, size = ([], [], [], []), 0
    if columns[0]:
        yield columns


def _split_by_pane(groups: WindowPanes) -> Iterator[GroupChunk]:
    """Yields the groups in order, as chunks. All groups of a chunk have the same pane info."""
    changes = [n for n in range(1, len(groups)) if groups.panes[n] != groups.panes[n - 1]]
    for first, last in pairwise((0, *changes, len(groups))):
        if first == last:
            continue
        values = groups.values[first:last]
        yield GroupChunk(
            keys=groups.keys[first:last],
            windows=groups.windows[first:last],
            timestamps=groups.timestamps[first:last],
            counts=[len(group) for group in values],
            values=[b"".join(group) for group in values],
            pane=encode_pane(groups.panes[first]),
        )
