"""Open sessions of keys, which merge if they overlap.

A session grows in place when elements arrive. The open sessions of a key never overlap, so a new
element affects only adjacent sessions. Sessions with a finished trigger don't merge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import WindowCoder, decode_window, encode_interval
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.merging import merge_overlapping_intervals
from beam_runner_engine.keyed.merging_windows import KeyWindows, MergingWindowTable, OnGrow, OnMerge
from beam_runner_engine.keyed.open_windows import OpenWindow, Span
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.keyed.window_tables import WindowFactory


class SessionWindowTable(MergingWindowTable):
    """Table of the open sessions of a shard's keys."""

    def __init__(
        self, cells: UncommittedCells, windows: WindowFactory, merge_into: OnMerge, leave: OnGrow
    ) -> None:
        super().__init__(cells, windows, merge_into, leave)
        self._spans: dict[bytes, Span] = {}

    def map_to_merged_windows(self, key: bytes, column: Iterable[bytes]) -> dict[bytes, OpenWindow]:
        of_key = self._load_windows(key)
        hulls = list(
            merge_overlapping_intervals(
                [(*self._decode_session_interval(data), data) for data in dict.fromkeys(column)]
            )
        )
        finished = {
            start: window
            for start, end, _ in hulls
            if (window := self._extend_session_to_interval(of_key, key, start, end)) is not None
        }
        # Look up the sessions only after all merges, because a later merge can change a session
        # that was found earlier.
        return {
            data: finished.get(start) or of_key.in_order[bisect_left(of_key.ends, start)]
            for start, _, members in hulls
            for data in members
        }

    def _extend_session_to_interval(
        self, of_key: KeyWindows, key: bytes, start: Timestamp, end: Timestamp
    ) -> OpenWindow | None:
        """Extends or creates a session that covers an interval (ms), and merges all sessions that
        overlap the interval.

        Returns:
            The session with exactly this interval if its trigger is finished; the call then changes
                nothing. Otherwise, None.
        """
        first = stop = bisect_left(of_key.ends, start)
        while (
            stop < len(of_key.ends)
            and self._decode_session_interval(of_key.in_order[stop].encoded)[0] < end
        ):
            stop += 1
        if first == stop:
            data = encode_interval(start, end)
            if data in of_key.retired:
                return of_key.windows[data]
            self._open_window(of_key, key, data)
            return None
        session, *others = of_key.in_order[first:stop]
        before = self._decode_session_interval(session.encoded)
        hull = (min(start, before[0]), max(end, of_key.ends[stop - 1] + 1))
        if hull != before:
            for other in others:
                of_key.remove_window(other)
            self.remove_window_before_extension(session)
            session.extend_session(hull)
            self.add_extended_window(session)
            self._merge_into(others, session)
        return None

    def _decode_session_interval(self, data: bytes) -> Span:
        span = self._spans.get(data)
        if span is None:
            window = decode_window(WindowCoder.INTERVAL, data)
            assert isinstance(window, IntervalWindow)
            span = self._spans[data] = (window.start, window.end)
        return span
