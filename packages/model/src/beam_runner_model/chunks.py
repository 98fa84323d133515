"""Data that enters and leaves a harness: chunks of encoded elements, groups and timers.

All event times are integers in milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from beam_runner_model.value_pieces import GroupValues


@attrs.frozen
class ElementChunk:
    """Windowed values, each encoded (nested) by the edge's windowed coder, one after the other.

    Attributes:
        count: how many.
        data: the bytes.
        ends: where each element ends in ``data`` (the last equals its length); on the way in it may
            be None, which has an input that is not processed whole read once more.
        min_timestamp: on the way out the earliest event time (ms) of all elements, or a moment in
            the first of their windows to end if that is earlier (`held_until` of the engine's
            windowed values); None where the edge did not ask for it.
        window: on the way out the encoded window of all elements, or None where the edge did not
            ask for it.
        first: on the way in, the number of the first element to process; those before it are
            skipped.
        last: on the way in, the number after the last element to process; None is ``count``.
    """

    count: int
    data: bytes | memoryview
    ends: Sequence[int] | None = None
    min_timestamp: int | None = None
    window: bytes | None = None
    first: int = 0
    last: int | None = None

    @property
    def meant(self) -> int:
        """How many of the elements are to be processed."""
        return (self.count if self.last is None else self.last) - self.first


@attrs.frozen
class KeyedChunk:
    """Rows of key, value, window and event time, in columns.

    Row *i* is in exactly one window: an element in three windows is three rows.
    Keys and values are the *nested* encodings by the component coders of the edge's KV coder, so
    that equal keys have equal bytes whichever harness wrote them.

    Attributes:
        key_data: all keys, concatenated.
        key_ends: where each key ends in ``key_data``.
        value_data: all values, concatenated.
        value_ends: where each value ends in ``value_data``.
        windows: one encoded window for every row, or a single ``bytes`` if all are the same.
        timestamps: event time in milliseconds of every row, or None if the edge does not want it.
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
    """Groups: each a key and window with all its values; columns of equal length.

    A harness makes of group *i* the element ``KV<key, Iterable<value>>`` in window ``windows[i]``
    at event time ``timestamps[i]`` with pane ``pane``.

    Attributes:
        keys: nested encodings of the keys.
        windows: encoded windows, or a single ``bytes`` if all are the same.
        timestamps: event times in milliseconds.
        counts: number of values of each group.
        values: the nested encodings of the values of each group, concatenated or in pieces.
        pane: the encoded pane info of all of them (the last byte(s) of a windowed value's header).
    """

    keys: Sequence[bytes]
    windows: bytes | Sequence[bytes]
    timestamps: Sequence[int]
    counts: Sequence[int]
    values: Sequence[GroupValues]
    pane: bytes


@attrs.frozen
class StageTimer:
    """A timer of a stateful stage, set by user code or due.

    Attributes:
        transform_id: the stateful transform.
        family: the timer family's local name.
        tag: the dynamic tag; empty for a plain timer.
        key: the nested encoding of the key.
        windows: the encoded windows, as the SDK wrote them one after the other; one as a rule.
        fire_at: when it fires (ms, of its family's time domain); None clears the timer.
        hold: the event time (ms) of its output, which holds the watermark until it fires; None if it
            holds nothing and has no output.
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
    """Timers that fire now, in order."""

    timers: tuple[StageTimer, ...]


@attrs.frozen
class Settle:
    """All that was given before must have been processed before the next chunk is asked for.

    What comes next depends on it: on the timers that user code has set until then.
    """


InputChunk = ElementChunk | GroupChunk | TimerChunk | Settle
OutputChunk = ElementChunk | KeyedChunk


@attrs.frozen
class StateCell:
    """One state cell of user code: of a key and a window.

    Attributes:
        transform_id: the stateful transform.
        state_id: the state's local name.
        window: the encoded window.
        key: the nested encoding of the key.
    """

    transform_id: str
    state_id: str
    window: bytes
    key: bytes
