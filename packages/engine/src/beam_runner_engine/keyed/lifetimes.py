"""Lifetimes of keys in windows: from the first element of a key in a window until the window
expires.

When a window expires, all state of the key in the window is released.
"""

from __future__ import annotations

from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.window_fns import GlobalWindows
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.due_times import DueTimeQueue
from beam_runner_engine.keyed.holds import WatermarkHolds
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.records import decode_record, encode_record
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_ALIVE = "~alive"


class OpenWindowRegistry:
    """Registry of the open windows of each key, with their expiry times.

    If `calls_back` is True, user code runs when a window expires. Each open window then holds back
    the watermark at the window's end, so that outputs of this code aren't late. Otherwise, the
    registry ignores the global window, which expires only at the end of the job.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        cells: UncommittedCells,
        agenda: DueTimeQueue,
        holds: WatermarkHolds,
        *,
        calls_back: bool,
    ) -> None:
        self._strategy = strategy
        self._cells = cells
        self._agenda = agenda
        self._holds = holds
        self._calls_back = calls_back
        self._matters = calls_back or not isinstance(strategy.window_fn, GlobalWindows)
        self._seen: set[tuple[bytes, bytes]] = set()
        self._expiries: dict[bytes, Timestamp] = {}

    def compute_expiry_time(self, window: bytes) -> Timestamp:
        """Returns the last time (event time, ms) at which an encoded window is open."""
        expiry = self._expiries.get(window)
        if expiry is None:
            decoded = decode_window(self._strategy.window_coder, window)
            expiry = self._expiries[window] = self._strategy.get_expiry_time(decoded)
        return expiry

    def register_window(self, key: bytes, window: bytes, now: CurrentTimes) -> None:
        """Registers a key's window. The first call of a bundle for a key and window reads one cell."""
        place = (key, window)
        if not self._matters or place in self._seen:
            return
        self._seen.add(place)
        if self._cells.read_values(CellId(_ALIVE, key, window)) is None:
            hold = self._compute_hold(window, now)
            self._holds.move_watermark_hold(None, hold)
            self._agenda.add_entry(self.compute_expiry_time(window), place)
            self._cells.replace_values(CellId(_ALIVE, key, window), (encode_record(hold),))

    def read_watermark_hold(self, key: bytes, window: bytes) -> Timestamp | None:
        """Returns the stored hold of a registered window."""
        stored = self._cells.read_values(CellId(_ALIVE, key, window))
        hold: Timestamp | None = decode_record(stored[0]) if stored else None
        return hold

    def get_end_without_callback(self) -> Timestamp | None:
        """Returns the last time (ms) of the global window if its expiry runs no user code, otherwise
        None. Such a window ends without a bundle.
        """
        return None if self._matters else self.compute_expiry_time(encode_window(GLOBAL_WINDOW))

    def has_ended_without_callback(self, watermark: Timestamp) -> bool:
        """Returns whether the global window has ended and the stage has no expiry callback
        (`on_window_expiration`).
        """
        end = self.get_end_without_callback()
        return end is not None and watermark > end

    def unregister_window(self, key: bytes, window: bytes) -> None:
        """Unregisters a window whose entry in the queue of due times was already
        removed.
        """
        stored = self._cells.read_values(CellId(_ALIVE, key, window))
        self._holds.move_watermark_hold(decode_record(stored[0]) if stored else None, None)
        self._cells.remove_subkey(CellId(_ALIVE, key, window))
        self._seen.discard((key, window))

    def unregister_merged_window(self, key: bytes, window: bytes) -> None:
        """Unregisters a window that merged into another window, if the window was registered."""
        if self._matters and self._cells.read_values(CellId(_ALIVE, key, window)) is not None:
            self._agenda.remove_entry(self.compute_expiry_time(window), (key, window))
            self.unregister_window(key, window)

    def _compute_hold(self, window: bytes, now: CurrentTimes) -> Timestamp | None:
        if not self._calls_back:
            return None
        end = decode_window(self._strategy.window_coder, window).max_timestamp()
        return end if end >= now.output_watermark else self.compute_expiry_time(window)
