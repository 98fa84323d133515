"""Data that enters and leaves a harness: chunks of encoded elements, groups and timers.

All event times are integers in milliseconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from beam_runner_model.value_pieces import GroupValues


@attrs.frozen
class ElementChunk:
    """Chunk of windowed values, concatenated in the nested encoding of the edge's windowed coder.

    Attributes:
        count: the number of elements.
        data: the encoded elements.
        ends: the end offset of each element in ``data``; the last offset equals its length. None is
            allowed for input; the harness then decodes the data again to find the offsets, unless
            it processes all elements.
        min_timestamp: for output: the time (event time, ms) at which the elements hold the
            watermark, see ``windowed_values.compute_hold_time``. None if the output edge doesn't
            request the time.
        window: for output: the encoded window of all elements. None if the edge doesn't request it.
        first: for input: the index of the first element to process.
        last: for input: the index after the last element to process; None means ``count``.
    """

    count: int
    data: bytes | memoryview
    ends: Sequence[int] | None = None
    min_timestamp: int | None = None
    window: bytes | None = None
    first: int = 0
    last: int | None = None

    @property
    def selected_count(self) -> int:
        """Number of elements to process."""
        return (self.count if self.last is None else self.last) - self.first


@attrs.frozen
class KeyedChunk:
    """Rows of key, value, window and event time, in columns.

    Each row is in exactly one window; an element in three windows becomes three rows. Keys and
    values have the *nested* encodings of the component coders of the edge's KV coder. Equal keys
    therefore have equal bytes, independent of the harness that wrote the keys.

    Attributes:
        key_data: all keys, concatenated.
        key_ends: the end offset of each key in ``key_data``.
        value_data: all values, concatenated.
        value_ends: the end offset of each value in ``value_data``.
        windows: the encoded window of each row, or a single ``bytes`` if all rows have the same
            window.
        timestamps: the event time (ms) of each row, or None if the edge doesn't request timestamps.
    """

    key_data: bytes
    key_ends: Sequence[int]
    value_data: bytes
    value_ends: Sequence[int]
    windows: bytes | Sequence[bytes]
    timestamps: Sequence[int] | None

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.key_ends)


@attrs.frozen
class GroupChunk:
    """Columns of groups. Each group has a key, a window and all values of the key in the window.

    A harness turns group *i* into an element ``KV<key, Iterable<value>>`` in window ``windows[i]``
    at event time ``timestamps[i]`` with pane ``pane``. All columns have the same length.

    Attributes:
        keys: the nested encodings of the keys.
        windows: the encoded windows, or a single ``bytes`` if all groups have the same window.
        timestamps: the event times (ms).
        counts: the number of values in each group.
        values: the nested encodings of the values of each group, concatenated, or as `ValuePieces`
            if they are large.
        pane: the encoded pane info of all groups (the last bytes of a windowed value's header).
    """

    keys: Sequence[bytes]
    windows: bytes | Sequence[bytes]
    timestamps: Sequence[int]
    counts: Sequence[int]
    values: Sequence[GroupValues]
    pane: bytes


@attrs.frozen
class StageTimer:
    """Timer of a stateful stage: a timer that user code sets, or a timer that fires.

    Attributes:
        transform_id: the stateful transform.
        family: the local name of the timer family.
        tag: the dynamic tag; empty for a timer without a tag.
        key: the nested encoding of the key.
        windows: the encoded windows, in the SDK's order. Usually there is one window.
        fire_at: the firing time (ms, in the time domain of the family); None clears the timer.
        hold: the output timestamp (event time, ms), which holds the watermark until the timer
            fires. None if the timer holds no watermark and has no output.
        pane: the encoded pane info.
    """

    transform_id: str
    family: str
    tag: str
    key: bytes
    windows: tuple[bytes, ...]
    fire_at: int | None
    hold: int | None
    pane: bytes


@attrs.frozen
class TimerChunk:
    """Timers that fire now, in firing order."""

    timers: tuple[StageTimer, ...]


@attrs.frozen
class FlushBarrier:
    """Barrier in the input: the harness processes all earlier chunks before it requests the next
    chunk.

    The next chunk depends on the timers that user code sets while it processes the earlier chunks.
    """


InputChunk = ElementChunk | GroupChunk | TimerChunk | FlushBarrier
OutputChunk = ElementChunk | KeyedChunk


@attrs.frozen
class StateCell:
    """State cell of user code, for one key and window.

    Attributes:
        transform_id: the stateful transform.
        state_id: the local name of the state.
        window: the encoded window.
        key: the nested encoding of the key.
    """

    transform_id: str
    state_id: str
    window: bytes
    key: bytes
