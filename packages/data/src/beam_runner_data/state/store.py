"""The state of one key shard of a stage: committed segments, and what a bundle adds to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_runner_engine.keyed.cells import CellDelta, CellId

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state.changes import draft_segment
from beam_runner_data.state.compaction import (
    CompactionPlan,
    full_tier,
    level_above,
    mostly_hidden,
    write_merged,
)
from beam_runner_data.state.overlay import fetch_data, live_row, live_rows
from beam_runner_data.state.records import (
    SegmentReader,
    decode_values,
    encode_cell,
)
from beam_runner_data.state.segments import open_segment

MERGED_IN_COMMIT = 512 << 10
"""A commit merges at most this many bytes; what is more is for a compaction beside the bundles."""


class ShardStore:
    """A `CellStore` of committed segments, which it opens when it first reads them.

    It serves one bundle after the other, if each begins with `advance`; a store for one bundle only
    is as good, and a few milliseconds slower. It may be used by one thread at a time. Close it.

    What is merged when:

    - A commit writes one file: the bundle's changes, merged with the newest segments if they fill a
      tier, or with all if most of what they hold is hidden now, up to `MERGED_IN_COMMIT` bytes.
    - Larger merges are due after a commit, see `compaction_due`, and are run by `compact` beside
      the next bundles of the shard, one at a time. Those must give the number of segments up to the
      last of the plan to `write_commit` as `keep`. `Compaction.applied_to` puts the result into the
      list, between two bundles: the commit of one that was opened before would bring the old list
      back.

    Files that are in the list no more may be deleted once no bundle or compaction that was opened
    with them is left.
    """

    def __init__(self, folder: Path, segments: Sequence[Segment]) -> None:
        """Opens nothing yet.

        Args:
            folder: the job's, to which all paths are relative.
            segments: the committed ones, oldest first.
        """
        self._folder = folder
        self._segments = tuple(segments)
        self._opened: dict[str, SegmentReader] = {}
        self._scanned: set[CellId] = set()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The committed segments that are read, oldest first."""
        return self._segments

    def advance(self, commit: StateCommit) -> None:
        """Reads these segments from now on; those that were open stay open."""
        self._segments = commit.segments
        self._scanned.clear()
        for path in self._opened.keys() - {segment.path for segment in commit.segments}:
            self._opened.pop(path).close()

    def close(self) -> None:
        """Gives all files back."""
        while self._opened:
            self._opened.popitem()[1].close()

    def read(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values at a subkey, None if absent; costs a lookup per segment at most.

        Raises:
            SegmentError: a file is damaged or missing; this goes for the other methods too.
        """
        data = live_row(self._readers(), encode_cell(cell), subkey)
        return decode_values(data) if data else None

    def scan(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Returns subkeys and values from `start` to before `end`, read as the iterator is used."""
        if not start:
            self._scanned.add(cell)
        rows = live_rows(self._readers(), encode_cell(cell), start, end, fetch_data)
        return ((subkey, decode_values(data)) for subkey, data in rows)

    def write_commit(
        self, deltas: Mapping[CellId, CellDelta], name: str, *, keep: int = 0
    ) -> StateCommit:
        """Writes a bundle's changes; nothing of them is read before `advance`.

        Costs what the changes cost, not what there is.

        Args:
            deltas: what the engine gave; if they change nothing, no file is written.
            name: the file's, relative to the folder; no other attempt may have it.
            keep: how many of the oldest segments must stay as they are, for a compaction under way.

        Raises:
            FileExistsError: the name is not unique.
        """
        readers = self._readers()
        draft = draft_segment(readers, deltas, self._scanned)
        if next(draft.entries(), None) is None:
            return StateCommit(self._segments)
        readers.append(draft)
        start = self._merged_from(readers, draft.size(), keep)
        merged = self._segments[start:]
        written = write_merged(
            self._folder,
            name,
            readers[start:],
            oldest=not start,
            level=level_above(merged) if merged else 0,
        )
        new = () if written is None else (written,)
        return StateCommit((*self._segments[:start], *new))

    def compaction_due(self) -> CompactionPlan | None:
        """The merge that these segments need and that no commit does, None if none."""
        if not self._segments:
            return None
        sizes = [segment.size for segment in self._segments]
        all_of_them = (0, len(sizes))
        run = all_of_them if mostly_hidden(self._readers()) else full_tier(sizes)
        if run is None:
            return None
        return CompactionPlan(self._segments[slice(*run)], oldest=not run[0])

    def _merged_from(self, readers: Sequence[SegmentReader], size: int, keep: int) -> int:
        """Number of the first segment to merge with a new one, which the readers include."""
        sizes = [*(segment.size for segment in self._segments), size]
        if not keep and sum(sizes) <= MERGED_IN_COMMIT and mostly_hidden(readers):
            return 0
        run = full_tier(sizes[keep:], MERGED_IN_COMMIT)
        return keep + run[0] if run and keep + run[1] == len(sizes) else len(self._segments)

    def _readers(self) -> list[SegmentReader]:
        return [self._opened.get(segment.path) or self._open(segment) for segment in self._segments]

    def _open(self, segment: Segment) -> SegmentReader:
        reader = self._opened[segment.path] = open_segment(self._folder, segment)
        return reader
