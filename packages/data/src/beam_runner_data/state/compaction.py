"""Compaction of state: selects state segments of a key shard, and merges them into one segment.

Segments belong to tiers by size, each eight times the tier below. A segment counts as part of the
highest tier at or after it, so tiers only fall from the oldest segment to the newest. When eight
neighbours belong to one tier, they are merged into one segment, usually of the next tier. So a byte
is copied O(log(size of the shard)) times, three to six for 100 MB in commits of any sizes, and a
tier has at most seven segments. If newer segments hide half of the data, all segments are merged.
The copied data is then at most as large as the removed data.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from pathlib import Path

import attrs

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state.overlay import merge_segments
from beam_runner_data.state.records import SegmentReader
from beam_runner_data.state.segments import open_segment, write_segment

NEIGHBOURS = 8
_LOWEST_TIER = 512


@attrs.frozen
class CompactionPlan:
    """Plan for a merge of state segments that is due, because a tier is full or newer segments deleted
    most of the data.

    Attributes:
        segments: neighbours in the shard's list, oldest first.
        oldest: whether the segments are at the start of the list. Only then can the merge omit
            tombstones of older data.
    """

    segments: tuple[Segment, ...]
    oldest: bool


@attrs.frozen
class CompactionResult:
    """Result of a merge of state segments, which replaces these segments in the shard's list.

    Attributes:
        merged: the segment that replaces the source segments; None if no data is left.
    """

    plan: CompactionPlan
    merged: Segment | None

    def replace_segments(self, segments: Sequence[Segment]) -> StateCommit:
        """Replaces the merged segments in the list of segments, to which bundles may have appended
        segments, and returns the new list.

        Raises:
            ValueError: The list no longer contains the plan's segments. Delete the merged file.
        """
        old = self.plan.segments
        start = segments.index(old[0]) if old[0] in segments else 0
        stop = start + len(old)
        if tuple(segments[start:stop]) != old or (self.plan.oldest and start):
            raise ValueError(f"the list lacks the segments that {self.merged} replaces")
        new = () if self.merged is None else (self.merged,)
        return StateCommit((*segments[:start], *new, *segments[stop:]))


def compact_segments(folder: Path, plan: CompactionPlan, name: str) -> CompactionResult:
    """Merges the plan's segments into a new file; takes about 1 s for 100 MB.

    Args:
        folder: the job's folder.
        plan: a plan of `ShardStore.plan_compaction`.
        name: path of the new file, relative to the folder; unique to the attempt.

    Raises:
        SegmentError: A file is damaged or missing.
    """
    with ExitStack() as stack:
        readers = [
            stack.enter_context(closing(open_segment(folder, segment))) for segment in plan.segments
        ]
        merged = write_merged_segment(
            folder,
            name,
            readers,
            oldest=plan.oldest,
            level=compute_merged_level(plan.segments),
        )
    return CompactionResult(plan, merged)


def write_merged_segment(
    folder: Path,
    name: str,
    readers: Sequence[SegmentReader],
    *,
    oldest: bool,
    level: int,
) -> Segment | None:
    """Writes the merged content of segments, given oldest first; returns None if the result is empty."""
    net = None if oldest else sum(reader.net for reader in readers)
    entries = merge_segments(readers, oldest=oldest)
    return write_segment(folder, name, entries, net=net, level=level)


def compute_merged_level(segments: Sequence[Segment]) -> int:
    """Returns the level (number of merges) of the segment that results from merging these segments."""
    return 1 + max(segment.level for segment in segments)


def is_mostly_deleted(readers: Sequence[SegmentReader]) -> bool:
    """Returns whether newer segments delete or replace at least half of the data of these segments.

    `segments` must be all segments of a shard.
    """
    weight = sum(reader.weight for reader in readers)
    return 2 * sum(reader.net for reader in readers) <= weight


def find_full_segment_tier(sizes: Sequence[int], most: int | None = None) -> tuple[int, int] | None:
    """Returns the range of segments to merge, given their sizes, oldest first; None if no merge is
    due.

    If the result would fill the next tier, the range also includes that tier, up to `most` bytes in
    total.
    """
    found: tuple[int, int] | None = None
    collapsed = list(sizes)
    while True:
        run = _find_newest_full_segment_tier(collapsed)
        if run is None or (found and not run[0] <= found[0] < run[1]):
            return found
        start, stop = run
        if found:
            stop += found[1] - found[0] - 1
        size = sum(sizes[start:stop])
        if most is not None and size > most:
            return found
        found = (start, stop)
        collapsed = [*sizes[:start], size, *sizes[stop:]]


def _find_newest_full_segment_tier(sizes: Sequence[int]) -> tuple[int, int] | None:
    highest = 0
    tiers = []
    for size in reversed(sizes):
        highest = max(highest, _compute_segment_tier(size))
        tiers.append(highest)
    stop = len(sizes)
    for _, run in groupby(tiers):
        start = stop - len(list(run))
        if stop - start >= NEIGHBOURS:
            return start, stop
        stop = start
    return None


def _compute_segment_tier(size: int) -> int:
    tier = 0
    while size >= _LOWEST_TIER * NEIGHBOURS ** (tier + 1):
        tier += 1
    return tier
