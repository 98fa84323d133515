"""An open window of a key: what is kept of it between firings, and how it fires.

| event | trigger is asked | fires if | timing of the pane |
|---|---|---|---|
| elements came | yes | the trigger is ready | early before the window's end, then on time if held |
| the watermark passed the end | yes | ready; something is new or on-time always fires | on time |
| processing time passed | yes | ready, and there is something new | the same as of elements |
| the window closes | no | something is new, or closing always fires | on time if held |

A pane is *held* if an element waits in it that was on time. It is late if the end has passed and it
is not held, or follows another pane that is not early. When end and closing pass at once they fire
once. A window fires no more once its trigger is finished, and what comes for it is dropped.
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
"""Start and end (ms) of a session; the end is no part of it."""

_KEPT = (
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
"""What of a window is kept between bundles."""
_values_kept = attrgetter(*_KEPT)


class OpenWindow:
    """One key's window and what is known of it; times in ms.

    `fresh` counts elements since the last pane; `timestamp` is the output timestamp those have so
    far, None if all were late. `buffer` holds values this bundle brought, `stored` says that
    earlier ones lie in the bag cells at `addresses`. `ended` says that the end of the window was
    seen to pass. `wake`, `process_wake` and `hold` are what the shard's agenda and holds say of it.
    """

    __slots__ = (*_KEPT, "buffer", "closes", "encoded", "key", "max_timestamp", "window")

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

    def kept(self) -> tuple[Any, ...]:
        """Returns all that must be kept until the next bundle, as plain values."""
        return _values_kept(self)

    def restore(self, kept: Sequence[Any]) -> None:
        """Takes over what `kept` returned."""
        for name, value in zip(_KEPT, kept, strict=True):
            setattr(self, name, value)

    def grow(self, hull: Span) -> None:
        """Makes it this larger session with the same contents; panes are counted from the start.

        When it closes is for the caller to say.
        """
        window = IntervalWindow(*hull)
        if window != self.window:
            self.window = window
            self.encoded = encode_interval(*hull)
            self.max_timestamp = window.max_timestamp()
            self.index = self.nonspeculative_index = 0

    def absorb(self, part: OpenWindow) -> None:
        """Takes the values of a window that becomes part of this one, where they are."""
        if part.stored:
            self.addresses = self.addresses + part.addresses if self.stored else part.addresses
            self.stored = True
        if self.buffer:
            self.buffer += part.buffer
        else:
            self.buffer = part.buffer
        self.fresh += part.fresh

    def next_pane(self, *, ended: bool, on_time: bool, is_last: bool) -> PaneInfo:
        """Counts a firing and returns its pane.

        `ended` says whether the end of the window has passed, `on_time` whether the firing may be
        the on-time one: the first after the end is, if it may.
        """
        index = self.index
        self.index = index + 1
        if not ended:
            return _pane(index == 0, is_last, PaneTiming.EARLY, index, -1)
        nonspeculative = self.nonspeculative_index
        self.nonspeculative_index = nonspeculative + 1
        timing = PaneTiming.ON_TIME if on_time and nonspeculative == 0 else PaneTiming.LATE
        return _pane(index == 0, is_last, timing, index, nonspeculative)


@lru_cache(maxsize=4096)
def _pane(
    is_first: bool, is_last: bool, timing: PaneTiming, index: int, nonspeculative_index: int
) -> PaneInfo:
    return PaneInfo(is_first, is_last, timing, index, nonspeculative_index)
