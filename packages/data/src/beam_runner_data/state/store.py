"""The state of one key shard of a stage: committed segments, and the changes that a bundle adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_runner_engine.keyed.cells import CellDelta, CellId

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state.changes import build_segment_of_changes
from beam_runner_data.state.compaction import (
    CompactionPlan,
    compute_merged_level,
    find_full_segment_tier,
    is_mostly_deleted,
    write_merged_segment,
)
from beam_runner_data.state.overlay import fetch_row_data, find_live_values, scan_live_rows
from beam_runner_data.state.records import (
    SegmentReader,
    decode_values,
    encode_cell,
)
from beam_runner_data.state.segments import open_segment

MERGED_IN_COMMIT = 512 << 10
"""The maximum size in bytes of a merge within a commit; a larger merge is a background compaction."""


class ShardStore:
    """State store of one key shard: a `CellStore` of committed segments, opened at the first read.

    The store serves one bundle after the other, if each begins with `advance_to_commit`. A store
    for a single bundle also works, and is a few milliseconds slower. One thread at a time may use
    the store. Close it after use.

    Merges happen at these times:

    - A commit writes one file: the bundle's changes, merged with the newest segments if they fill a
      tier, or with all segments if most of their data is now hidden, up to `MERGED_IN_COMMIT`
      bytes.
    - Larger merges are due after a commit, see `plan_compaction`. `compact_segments` runs them, one
      at a time, while the next bundles of the shard run. These bundles must pass the number of
      segments up to the last segment of the plan to `write_commit` as `keep`.
      `CompactionResult.replace_segments` puts the result into the list between two bundles. A bundle that
      was opened before would restore the old list by its commit.

    Files that are no longer in the list may be deleted when no bundle or compaction that was opened
    with them is left.
    """

    def __init__(self, folder: Path, segments: Sequence[Segment]) -> None:
        """Creates the store without opening any file.

        Args:
            folder: the job's folder, to which all paths are relative.
            segments: the committed segments, oldest first.
        """
        self._folder = folder
        self._segments = tuple(segments)
        self._opened: dict[Segment, SegmentReader] = {}
        self._scanned: set[CellId] = set()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The committed segments that reads use, oldest first."""
        return self._segments

    @property
    def may_result_from_split(self) -> bool:
        """Whether an update may have created the shard by splitting another key shard. If so, the
        first bundle of the new shard may not have run.
        """
        return any(segment.share is not None for segment in self._segments)

    def advance_to_commit(self, commit: StateCommit) -> None:
        """Sets the committed segments to read; segments that stay in the list stay open."""
        self._segments = commit.segments
        self._scanned.clear()
        for segment in self._opened.keys() - set(commit.segments):
            self._opened.pop(segment).close()

    def close(self) -> None:
        """Closes all segment files of the store."""
        while self._opened:
            self._opened.popitem()[1].close()

    def read_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values at a subkey (map or sort key) of a state cell; None if the subkey is
        absent. Costs at most one lookup per segment.

        Raises:
            SegmentError: A file is damaged or missing; other methods raise it, too.
        """
        data = find_live_values(self._open_readers(), encode_cell(cell), subkey)
        return decode_values(data) if data else None

    def scan_subkeys(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Yields subkeys and values from `start` to before `end`, read lazily."""
        if not start:
            self._scanned.add(cell)
        rows = scan_live_rows(self._open_readers(), encode_cell(cell), start, end, fetch_row_data)
        return ((subkey, decode_values(data)) for subkey, data in rows)

    def write_commit(
        self, deltas: Mapping[CellId, CellDelta], name: str, *, keep: int = 0
    ) -> StateCommit:
        """Writes a bundle's changes. Reads see them only after `advance_to_commit`.

        The cost depends on the changes, not on the size of the state.

        Args:
            deltas: the engine's changes of state; if no state changes, the method writes no file.
            name: the file's path, relative to the folder; unique to the attempt.
            keep: number of the oldest segments that must not change, because a compaction reads
                them.

        Raises:
            FileExistsError: The name is not unique.
        """
        readers = self._open_readers()
        draft = build_segment_of_changes(readers, deltas, self._scanned)
        if next(draft.read_entries(), None) is None:
            return StateCommit(self._segments)
        readers.append(draft)
        start = self._find_merge_start(readers, draft.estimate_size(), keep)
        merged = self._segments[start:]
        written = write_merged_segment(
            self._folder,
            name,
            readers[start:],
            oldest=not start,
            level=compute_merged_level(merged) if merged else 0,
        )
        new = () if written is None else (written,)
        return StateCommit((*self._segments[:start], *new))

    def plan_compaction(self) -> CompactionPlan | None:
        """Returns the merge that is due and too large for a commit; None if no merge is due."""
        if not self._segments or self._segments[-1].share is not None:
            # Don't merge segments of a split shard before its first bundle has removed the mark of
            # the split. A merge would omit the mark.
            return None
        sizes = [segment.size for segment in self._segments]
        all_of_them = (0, len(sizes))
        run = (
            all_of_them
            if is_mostly_deleted(self._open_readers())
            else find_full_segment_tier(sizes)
        )
        if run is None:
            return None
        return CompactionPlan(self._segments[slice(*run)], oldest=not run[0])

    def _find_merge_start(self, readers: Sequence[SegmentReader], size: int, keep: int) -> int:
        """Returns the index of the first state segment to merge with a new segment, which is the last of `readers`."""
        sizes = [*(segment.size for segment in self._segments), size]
        if not keep and sum(sizes) <= MERGED_IN_COMMIT and is_mostly_deleted(readers):
            return 0
        run = find_full_segment_tier(sizes[keep:], MERGED_IN_COMMIT)
        return keep + run[0] if run and keep + run[1] == len(sizes) else len(self._segments)

    def _open_readers(self) -> list[SegmentReader]:
        return [
            self._opened.get(segment) or self._open_segment(segment) for segment in self._segments
        ]

    def _open_segment(self, segment: Segment) -> SegmentReader:
        reader = self._opened[segment] = open_segment(self._folder, segment)
        return reader
