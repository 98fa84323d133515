"""GroupByKey with triggers: takes the elements of a key shard, and returns the panes that fire.

A trigger is evaluated when elements arrive, when the watermark passes the end of a window, and when
a processing-time delay of the trigger elapses. A window closes when the watermark passes the end of
the window plus the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from beam_runner_model.strategy import (
    ClosingBehavior,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Timestamp, get_earliest_watermark_after
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import decode_max_timestamp
from beam_runner_model.window_fns import Sessions

from beam_runner_engine.keyed.columns import (
    KeyColumns,
    append_column_values,
    append_element_rows,
    check_column_lengths,
)
from beam_runner_engine.keyed.commits import KeyedCommit
from beam_runner_engine.keyed.division import list_group_by_key_holds, remove_shard_split_mark
from beam_runner_engine.keyed.due_times import EVENTS, PROCESSING, DueTimeQueue
from beam_runner_engine.keyed.firing import WindowTriggerEvaluator
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.keyed.holds import WatermarkHolds
from beam_runner_engine.keyed.merging import select_merger
from beam_runner_engine.keyed.merging_windows import CustomWindowTable, MergingWindowTable
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.ports import CellStore, WindowMerger
from beam_runner_engine.keyed.session_windows import SessionWindowTable
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.keyed.window_tables import NonMergingWindowTable, WindowFactory


class TriggeredGrouper:
    """Grouper of one shard's elements by key and window, for one bundle.

    The grouper reads the state of keys only if they have elements or due windows. All elements of a
    `process_elements` call arrive together, and triggers are evaluated after all of them. The
    caller's choice of batches is therefore visible to users. If `may_result_from_split` is True, an update
    may have created the shard by splitting another shard, see `division`.

    Raises:
        ValueError: If only the SDK can merge the windows and `merger` is None.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        store: CellStore,
        merger: WindowMerger | None = None,
        *,
        may_result_from_split: bool = False,
    ) -> None:
        self._strategy = strategy
        self._cells = UncommittedCells(store)
        self._firing = WindowTriggerEvaluator(strategy, self._cells)
        self._agenda = DueTimeQueue(self._cells, EVENTS)
        self._process_agenda = DueTimeQueue(self._cells, PROCESSING)
        self._holds = WatermarkHolds(self._cells)
        self._keeps_times = strategy.timestamp_combiner is not TimestampCombiner.END_OF_WINDOW
        self._awaits_end = (
            self._firing.machine.depends_on_window_end
            and strategy.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS
        )
        self._always_closes = strategy.closing_behavior is ClosingBehavior.EMIT_ALWAYS
        self._late_data = 0
        windows = WindowFactory(strategy, self._firing.machine.initial_state)
        tables = (self._cells, windows, self._merge_windows, self._release_window)
        merging = select_merger(strategy, merger)

        def create_table() -> NonMergingWindowTable | MergingWindowTable:
            if merging is None:
                return NonMergingWindowTable(self._cells, windows)
            if isinstance(strategy.window_fn, Sessions):
                return SessionWindowTable(*tables)
            return CustomWindowTable(*tables, merging)

        self._table = create_table()
        if may_result_from_split and remove_shard_split_mark(self._cells):
            # Use a separate table of windows, because the bundle writes back each window that the
            # bundle's table has read.
            self._holds.add_watermark_holds(list_group_by_key_holds(self._agenda, create_table()))

    def process_elements(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
        now: CurrentTimes,
    ) -> WindowPanes:
        """Adds elements and returns the panes that fire.

        Everything that is due at `now` fires before the elements are added. Elements of closed
        windows are dropped and counted.

        Args:
            keys: the encoded keys.
            windows: the encoded windows.
            timestamps: the event times (ms).
            values: the values, which the engine doesn't inspect. All four columns have the same
                length.
            now: the current watermarks and processing time.

        Returns:
            The panes; the panes of a key's window are in firing order.

        Raises:
            ValueError: If the columns differ in length.
        """
        check_column_lengths(keys, windows, timestamps, values)
        out = self.advance_time(now)
        self._firing.out = out
        if isinstance(self._table, NonMergingWindowTable):
            self._process_non_merging_windows(self._table, keys, windows, timestamps, values)
        else:
            self._process_merging_windows(self._table, keys, windows, timestamps, values)
        return out

    def advance_time(self, now: CurrentTimes) -> WindowPanes:
        """Returns the panes that fire because time advances to `now`, in order of time."""
        firing = self._firing
        firing.now = now
        firing.out = WindowPanes()
        while (due := self._agenda.pop_due_entry(now.watermark)) is not None:
            window = self._find_window(due[1])
            window.wake = None
            if now.watermark >= window.closes:
                firing.close_window(window)
                self._release_window(window)
                self._table.close_window(window)
            else:
                firing.fire_at_window_end(window)
                self._update_due_times(window)
        while (due := self._process_agenda.pop_due_entry(now.processing_time)) is not None:
            window = self._find_window(due[1])
            window.process_wake = None
            firing.fire_at_processing_time(window)
            self._update_due_times(window)
        return firing.out

    def finish_bundle(self) -> KeyedCommit:
        """Finishes the bundle, and returns the changes of state and the new summary (holds and
        timers) of the shard.
        """
        for window in self._table.list_open_windows():
            self._firing.save_new_values(window)
        self._table.save_windows()
        event, processing = (
            self._agenda.get_earliest_entry(),
            self._process_agenda.get_earliest_entry(),
        )
        self._agenda.save_changes()
        self._process_agenda.save_changes()
        self._holds.save_hold_counts()
        summary = ShardSummary(
            holds=self._holds.list_earliest_watermark_holds(),
            next_event_timer=None if event is None else event[0],
            next_processing_timer=None if processing is None else processing[0],
        )
        return KeyedCommit(
            self._cells.list_cell_deltas(), summary, self._late_data + self._firing.dropped
        )

    def _process_non_merging_windows(
        self,
        table: NonMergingWindowTable,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        columns: dict[bytes, dict[bytes, list[Any]]] = {}
        times: dict[bytes, dict[bytes, list[Timestamp]]] = {}
        append_column_values(columns, keys, windows, values)
        if self._keeps_times:
            append_column_values(times, keys, windows, timestamps)
        for data, of_window in columns.items():
            if self._is_window_closed(data):
                self._late_data += sum(map(len, of_window.values()))
                continue
            times_of_window = times.get(data)
            for key, of_key in of_window.items():
                window = table.open_window(key, data)
                self._firing.add_elements(
                    window, times_of_window[key] if times_of_window else (), of_key
                )
                self._update_due_times(window)

    def _process_merging_windows(
        self,
        table: MergingWindowTable,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        columns: dict[bytes, KeyColumns] = {}
        append_element_rows(columns, keys, windows, timestamps, values)
        for key, rows in columns.items():
            for window in self._add_key_elements(table, key, *self._remove_late_elements(rows)):
                self._update_due_times(window)

    def _add_key_elements(
        self,
        table: MergingWindowTable,
        key: bytes,
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> Iterable[OpenWindow]:
        """Merges windows once for all elements of a key, adds the elements and returns the changed
        windows.
        """
        if not values:
            return ()
        window_of = table.map_to_merged_windows(key, windows)
        touched = {window.encoded: window for window in window_of.values()}
        if len(touched) == 1:
            self._firing.add_elements(next(iter(touched.values())), timestamps, values)
            return touched.values()
        columns: dict[bytes, KeyColumns] = {}
        merged = [window_of[data].encoded for data in windows]
        append_element_rows(columns, merged, windows, timestamps, values)
        for encoded, (_, times, of_window) in columns.items():
            self._firing.add_elements(touched[encoded], times, of_window)
        return touched.values()

    def _remove_late_elements(self, rows: KeyColumns) -> KeyColumns:
        """Returns the rows of a key without the rows of closed windows, which are counted as
        dropped.

        Encoded windows sort by their end. If the smallest encoded window is open, all windows are
        open.
        """
        windows = rows[0]
        if not self._is_window_closed(min(windows)):
            return rows
        timely = [not self._is_window_closed(data) for data in windows]
        self._late_data += timely.count(False)
        first, second, third = (list(compress(column, timely)) for column in rows)
        return first, second, third

    def _is_window_closed(self, data: bytes) -> bool:
        end = decode_max_timestamp(self._strategy.window_coder, data)
        return self._firing.now.watermark > self._strategy.compute_expiry(end)

    def _find_window(self, reference: tuple[bytes, ...]) -> OpenWindow:
        key, data = reference
        window = self._table.get_window(key, data)
        if window is None:
            raise ValueError(
                f"Window {data!r} of key {key!r} is due, but the state store has no record of it"
            )
        return window

    def _merge_windows(self, parts: list[OpenWindow], into: OpenWindow) -> None:
        self._firing.merge_windows(parts, into)
        for part in parts:
            self._release_window(part)

    def _update_due_times(self, window: OpenWindow) -> None:
        """Updates the queue of due times and the watermark holds after a window
        changed.
        """
        trigger = self._firing.machine
        if window.finished and not isinstance(self._table, NonMergingWindowTable):
            self._table.exclude_window_from_merging(window)
        if window.ended or window.finished or not trigger.depends_on_window_end:
            wake = window.closes
        else:
            wake = get_earliest_watermark_after(window.max_timestamp)
        process_wake = None if window.finished else trigger.get_next_wake_up_time(window.trigger)
        if process_wake is not None and process_wake <= self._firing.now.processing_time:
            process_wake = None
        self._move_due_times(window, wake, process_wake, self._compute_hold(window))

    def _release_window(self, window: OpenWindow) -> None:
        self._move_due_times(window, None, None, None)

    def _move_due_times(
        self,
        window: OpenWindow,
        wake: Timestamp | None,
        process_wake: Timestamp | None,
        hold: Timestamp | None,
    ) -> None:
        reference = (window.key, window.encoded)
        self._agenda.reschedule_entry(window.wake, wake, reference)
        self._process_agenda.reschedule_entry(window.process_wake, process_wake, reference)
        self._holds.move_watermark_hold(window.hold, hold)
        window.wake, window.process_wake, window.hold = wake, process_wake, hold

    def _compute_hold(self, window: OpenWindow) -> Timestamp | None:
        """Returns the event time (ms) at which a window holds the output watermark until the window
        fires; None for no hold.

        The hold is the output timestamp of pending on-time elements. Without such elements, the
        hold is the end of the window if the window can fire there. Otherwise, the hold is the
        expiry of the window if late elements are pending or if the window always emits a closing
        pane. The hold prevents the pane from being dropped downstream.
        """
        if window.finished:
            return None
        if window.timestamp is not None:
            # A timestamp can be after the end of its window, see
            # `windowed_values.compute_hold_time`.
            return min(window.timestamp, window.max_timestamp)
        if not window.ended and (window.fresh or self._awaits_end):
            return window.max_timestamp
        return window.closes - 1 if window.fresh or self._always_closes else None
