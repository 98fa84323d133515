"""Open window of a key: its state between firings, and the pane info of each firing.

| event | trigger evaluated | fires if | timing of the pane |
|---|---|---|---|
| elements arrive | yes | the trigger is ready | early before the window's end, later on time if held |
| the watermark passes the end | yes | ready, and new elements or on-time behavior `FIRE_ALWAYS` | on time |
| processing time advances | yes | ready, and new elements | as for elements |
| the window closes | no | new elements or closing behavior `EMIT_ALWAYS` | on time if held |

A pane is *held* if it contains a pending element that arrived on time. After the end of the window,
a pane is late in two cases: if it is not held, or if the pane before it is on time or late. If the
end and the expiry pass together, the window fires once. After its trigger finishes, a window never
fires again, and its new elements are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from beam_runner_model.panes import PaneInfo, PaneTiming
from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import encode_interval
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_engine.keyed.triggers import State

Span: TypeAlias = tuple[Timestamp, Timestamp]
"""Start and exclusive end (ms) of a session."""

_STORED_NAMES = (
    "trigger",
    "addresses",
    "stored",
    "fresh",
    "timestamp",
    "index",
    "nonspeculative_index",
    "finished",
    "ended",
    "wake",
    "process_wake",
    "hold",
)
"""Names of the attributes that are stored between bundles."""
_read_stored_values = attrgetter(*_STORED_NAMES)


class OpenWindow:
    """State of a key's open window. All times are in ms.

    Attributes:
        addresses: the windows in the IDs of the bag cells that contain the stored values.
        buffer: the values that arrived in this bundle.
        stored: whether values from earlier bundles are in the bag cells.
        fresh: the number of elements since the last pane.
        timestamp: the output timestamp of the next pane so far; None if all new elements were late.
        nonspeculative_index: the index of the next pane that is not early.
        ended: whether the watermark has passed the end of the window.
        closes: the watermark at which the window closes.
        wake: the due time of the window in event time.
        process_wake: the due time of the window in processing time.
        hold: the watermark hold of the window.
    """

    __slots__ = (*_STORED_NAMES, "buffer", "closes", "encoded", "key", "max_timestamp", "window")

    def __init__(
        self, key: bytes, window: Window, encoded: bytes, closes: Timestamp, trigger: State
    ) -> None:
        self.key = key
        self.window = window
        self.encoded = encoded
        self.max_timestamp = window.max_timestamp()
        self.closes = closes
        self.trigger = trigger
        self.addresses: tuple[bytes, ...] = (encoded,)
        self.buffer: list[Any] = []
        self.stored = False
        self.fresh = 0
        self.timestamp: Timestamp | None = None
        self.index = 0
        self.nonspeculative_index = 0
        self.finished = False
        self.ended = False
        self.wake: Timestamp | None = None
        self.process_wake: Timestamp | None = None
        self.hold: Timestamp | None = None

    def list_persisted_attributes(self) -> tuple[Any, ...]:
        """Returns the values of the attributes that the next bundle needs, for the state store."""
        return _read_stored_values(self)

    def restore_persisted_attributes(self, kept: Sequence[Any]) -> None:
        """Restores the attributes from the result of `list_persisted_attributes`."""
        for name, value in zip(_STORED_NAMES, kept, strict=True):
            setattr(self, name, value)

    def extend_session(self, hull: Span) -> None:
        """Extends the session to the interval `hull`, keeps the contents and resets the pane
        indexes.

        The caller must update `closes`.
        """
        window = IntervalWindow(*hull)
        if window != self.window:
            self.window = window
            self.encoded = encode_interval(*hull)
            self.max_timestamp = window.max_timestamp()
            self.index = self.nonspeculative_index = 0

    def add_merged_window(self, part: OpenWindow) -> None:
        """Adds the values of a window that merges into this window. Stored values stay in their bag
        cells.
        """
        if part.stored:
            self.addresses = self.addresses + part.addresses if self.stored else part.addresses
            self.stored = True
        if self.buffer:
            self.buffer += part.buffer
        else:
            self.buffer = part.buffer
        self.fresh += part.fresh

    def create_next_pane(self, *, ended: bool, on_time: bool, is_last: bool) -> PaneInfo:
        """Increments the pane index and returns the pane of a firing.

        Args:
            ended: whether the watermark has passed the end of the window.
            on_time: whether the pane can be the on-time pane. Only the first pane after the end can
                be on time.
        """
        index = self.index
        self.index = index + 1
        if not ended:
            return _create_pane(index == 0, is_last, PaneTiming.EARLY, index, -1)
        nonspeculative = self.nonspeculative_index
        self.nonspeculative_index = nonspeculative + 1
        timing = PaneTiming.ON_TIME if on_time and nonspeculative == 0 else PaneTiming.LATE
        return _create_pane(index == 0, is_last, timing, index, nonspeculative)


@lru_cache(maxsize=4096)
def _create_pane(
    is_first: bool, is_last: bool, timing: PaneTiming, index: int, nonspeculative_index: int
) -> PaneInfo:
    return PaneInfo(is_first, is_last, timing, index, nonspeculative_index)
