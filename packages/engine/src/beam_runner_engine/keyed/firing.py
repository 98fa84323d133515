"""Evaluation of triggers for one open window, when elements arrive or time advances; emits panes.

`WindowTriggerEvaluator` uses the window, its trigger and its values. `grouping` finds windows and tracks
their due times. The table in `open_windows` specifies the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_runner_model.strategy import (
    AccumulationMode,
    ClosingBehavior,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.times import Timestamp
from beam_runner_model.timestamp_combiners import combine_timestamps, get_timestamp_selector

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.composite_triggers import create_machine
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.triggers import TriggerTime
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_ELEMENTS = "~elements"


class WindowTriggerEvaluator:
    """Trigger evaluation for the windows of one strategy. Panes are appended to `out` in firing
    order.
    """

    def __init__(self, strategy: WindowingStrategy, cells: UncommittedCells) -> None:
        self.machine = create_machine(strategy.trigger)
        self.now = CurrentTimes()
        self.out = WindowPanes()
        self.dropped = 0
        self._cells = cells
        self._accumulates = strategy.accumulation_mode is AccumulationMode.ACCUMULATING
        self._always_on_time = strategy.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS
        self._always_closing = strategy.closing_behavior is ClosingBehavior.EMIT_ALWAYS
        self._combiner = strategy.timestamp_combiner
        self._combine = get_timestamp_selector(strategy.timestamp_combiner)

    def get_trigger_time(self, window: OpenWindow) -> TriggerTime:
        """Returns the watermark and processing-time state of a window, in the form that triggers use."""
        now = self.now
        return TriggerTime(now.watermark > window.max_timestamp, now.processing_time)

    def add_elements(
        self, window: OpenWindow, times: Sequence[Timestamp], values: Sequence[Any]
    ) -> None:
        """Adds elements that arrive together, and then fires the window if the trigger is ready."""
        at = self.get_trigger_time(window)
        window.ended = at.ended
        if window.finished:
            self.dropped += len(values)
            return
        window.trigger = self.machine.add_elements(window.trigger, len(values), at)
        window.buffer += values
        window.fresh += len(values)
        self._combine_timestamps(window, times)
        if self.machine.is_ready(window.trigger, at):
            self._fire_window(window, at, on_time=window.timestamp is not None)

    def fire_at_window_end(self, window: OpenWindow) -> None:
        """Fires the window if the trigger is ready after the watermark passed the end of the
        window.
        """
        window.ended = True
        at = self.get_trigger_time(window)
        if not window.finished and self.machine.is_ready(window.trigger, at):
            self._fire_window(window, at, on_time=True)

    def fire_at_processing_time(self, window: OpenWindow) -> None:
        """Fires the window if the trigger is ready after processing time advanced."""
        at = self.get_trigger_time(window)
        if not window.finished and self.machine.is_ready(window.trigger, at):
            self._fire_window(window, at, on_time=window.timestamp is not None)

    def close_window(self, window: OpenWindow) -> None:
        """Closes an expired window, and emits the final pane if the closing behavior requires it."""
        passing = not window.ended
        window.ended = True
        if not window.finished:
            expected = (
                self._always_on_time
                and self.machine.depends_on_window_end
                and passing
                and window.nonspeculative_index == 0
                and self.machine.is_ready(window.trigger, self.get_trigger_time(window))
            )
            if window.fresh or expected or self._always_closing:
                held = passing or window.timestamp is not None
                self._emit_pane(window, ended=True, on_time=held, is_last=True)
        self._clear_values(window)

    def merge_windows(self, parts: Sequence[OpenWindow], into: OpenWindow) -> None:
        """Merges the contents of the windows `parts` into the window `into`, which can already have
        contents.

        The pane index of `into` stays, so it restarts if `into` is a new or grown window. Windows with a
        finished trigger don't merge.
        """
        at = self.get_trigger_time(into)
        into.trigger = self.machine.merge_states([part.trigger for part in (into, *parts)], at)
        into.ended = at.ended
        times = [part.timestamp for part in (into, *parts) if part.timestamp is not None]
        into.timestamp = combine_timestamps(self._combiner, into.window, times) if times else None
        for part in parts:
            into.add_merged_window(part)

    def save_new_values(self, window: OpenWindow) -> None:
        """Writes the values that arrived in this bundle to the first bag cell of the window."""
        if window.buffer:
            cell = CellId(_ELEMENTS, window.key, window.addresses[0])
            self._cells.append_values(cell, window.buffer)
            window.buffer = []
            window.stored = True

    def _fire_window(self, window: OpenWindow, at: TriggerTime, *, on_time: bool) -> None:
        window.trigger, finished = self.machine.fire_trigger(window.trigger, at)
        expected = on_time and window.nonspeculative_index == 0 and self._always_on_time
        if window.fresh or expected or (finished and self._always_closing):
            self._emit_pane(window, ended=at.ended, on_time=on_time, is_last=finished)
        if finished:
            window.finished = True
            self._clear_values(window)

    def _emit_pane(self, window: OpenWindow, *, ended: bool, on_time: bool, is_last: bool) -> None:
        pane = window.create_next_pane(ended=ended, on_time=on_time, is_last=is_last)
        values = tuple(window.buffer)
        if window.stored:
            values = (*self._read_stored_values(window), *values)
        if not self._accumulates:
            window.buffer = []
            self._clear_stored_values(window)
        timestamp = window.timestamp if window.timestamp is not None else window.max_timestamp
        self.out.append_pane(window.key, window.encoded, timestamp, pane, values)
        window.fresh = 0
        window.timestamp = None

    def _combine_timestamps(self, window: OpenWindow, times: Sequence[Timestamp]) -> None:
        """Combines the timestamps of on-time elements with the previous output timestamp.

        An element is late if its window has ended or if its timestamp is before the output
        watermark.
        """
        if window.ended:
            return
        output_watermark = self.now.output_watermark
        if self._combine is None:
            if window.max_timestamp >= output_watermark:
                window.timestamp = window.max_timestamp
            return
        if min(times) < output_watermark:
            times = [time for time in times if time >= output_watermark]
            if not times:
                return
        time = self._combine(times)
        before = window.timestamp
        window.timestamp = time if before is None else self._combine((before, time))

    def _read_stored_values(self, window: OpenWindow) -> list[Any]:
        return [
            value
            for address in window.addresses
            for value in self._cells.read_values(CellId(_ELEMENTS, window.key, address)) or ()
        ]

    def _clear_stored_values(self, window: OpenWindow) -> None:
        if window.stored:
            for address in window.addresses:
                self._cells.clear_cell(CellId(_ELEMENTS, window.key, address))
            window.stored = False

    def _clear_values(self, window: OpenWindow) -> None:
        window.buffer = []
        window.fresh = 0
        window.timestamp = None
        self._clear_stored_values(window)
