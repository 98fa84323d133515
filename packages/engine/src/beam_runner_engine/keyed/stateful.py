"""Stateful processing: the engine's part in running user code with state and timers.

The caller runs user code. The shard returns the next work, and receives the user code's changes to
state and timers::

    admitted = shard.accept_elements(keys, windows, timestamps, values, now)
    ...  # User code processes the admitted elements with shard.get_state() and shard.set_timer().
    while (due := shard.take_next_due_work(now)) is not None:
        ...  # User code runs the timer, the sorted elements or the window's expiration.
    commit = shard.finish_bundle()

These kinds of work become due, in this order:

- Sorted elements: after the watermark has passed their timestamp plus lateness. Ordered by time.
- Event-time timers: after the watermark has passed their time. Ordered by time, including new
  timers.
- Window expirations: after the watermark has passed the expiry. Ordered by time.
- Processing-time timers: after processing time has reached their time. Ordered by time.

A watermark passes a time when it exceeds the time, see `get_earliest_watermark_after`. Windows expire in
event time only. Before a window expires, all its pending timers fire, including later timers and
processing-time timers. Bounded input and drains therefore lose no timers and don't wait for
processing time. `expiry_timers` specifies the rules. In a drain, the global window ends at the end
of the input, because event-time timers that set themselves would otherwise continue up to the
maximum timestamp.

The order applies to each key and window. User code for one key and window can't change the work of
another key and window. Therefore, the first work of each key and window can run together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import attrs
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    Timestamp,
    get_earliest_watermark_after,
)
from beam_runner_model.window_coders import decode_instant, decode_window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.columns import check_column_lengths
from beam_runner_engine.keyed.commits import KeyedCommit
from beam_runner_engine.keyed.division import list_stateful_step_holds, remove_shard_split_mark
from beam_runner_engine.keyed.due_times import EVENTS, EXPIRIES, PROCESSING, DueTimeQueue, Entry
from beam_runner_engine.keyed.expiry_timers import ExpiryTimers
from beam_runner_engine.keyed.holds import WatermarkHolds
from beam_runner_engine.keyed.lifetimes import OpenWindowRegistry
from beam_runner_engine.keyed.merging import select_merger
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.ports import CellStore, WindowMerger
from beam_runner_engine.keyed.sorted_input import ELEMENTS, SortedInputBuffer
from beam_runner_engine.keyed.state import State
from beam_runner_engine.keyed.stateful_merging import StatefulWindowTable
from beam_runner_engine.keyed.stateful_records import (
    AdmittedElements,
    DueWork,
    ExpiredWindow,
    FiredTimer,
    SortedElements,
    StatefulSpec,
)
from beam_runner_engine.keyed.timer_families import DeclaredTimerFamilies
from beam_runner_engine.keyed.timers import Timer, TimerTable
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

AnyState = TypeVar("AnyState", bound=State)

_MAX_SKIPPED_PER_ITEM = 10
"""Maximum number of due times to skip per returned entry, if skipping is cheaper than another call."""


class StatefulShard:
    """Key shard of a stateful stage, for one bundle.

    The shard reads only the cells of keys that have elements or due work.

    Raises:
        ValueError: If only the SDK can merge the windows and `merger` is None.
    """

    def __init__(
        self, spec: StatefulSpec, store: CellStore, merger: WindowMerger | None = None
    ) -> None:
        self._spec = spec
        self._cells = UncommittedCells(store)
        self._events = DueTimeQueue(self._cells, EVENTS)
        self._processing = DueTimeQueue(self._cells, PROCESSING)
        self._expiries = DueTimeQueue(self._cells, EXPIRIES)
        self._holds = WatermarkHolds(self._cells)
        self._timers = TimerTable(self._cells, self._events, self._processing, self._holds)
        self._endings = ExpiryTimers(self._timers)
        self._lifetimes = OpenWindowRegistry(
            spec.strategy,
            self._cells,
            self._expiries,
            self._holds,
            calls_back=spec.on_window_expiration,
        )
        lateness = spec.strategy.allowed_lateness
        self._sorted = SortedInputBuffer(
            self._cells, self._events, self._holds, lateness, self._lifetimes.compute_expiry_time
        )
        merging = select_merger(spec.strategy, merger)
        self._windows = (
            None
            if merging is None
            else StatefulWindowTable(
                spec.strategy, spec.states, self._cells, merging, self._timers, self._sorted
            )
        )
        if spec.may_result_from_split and remove_shard_split_mark(self._cells):
            parts = (self._timers, self._sorted, self._lifetimes)
            self._holds.add_watermark_holds(list_stateful_step_holds(self._cells, *parts))
        self._families: DeclaredTimerFamilies | None = None
        if spec.timer_families is not None:
            self._families = DeclaredTimerFamilies(self._cells, spec.timer_families)
            self._families.remove_undeclared_timers(self._timers, (self._events, self._processing))
        self._expiring: dict[tuple[bytes, bytes], None] = {}
        self._loops = False
        self._dropped = 0

    @property
    def dropped_count(self) -> int:
        """Number of elements that the engine dropped because their window had expired."""
        return self._dropped

    def accept_elements(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
        now: CurrentTimes,
        counts: Sequence[int] | None = None,
    ) -> AdmittedElements:
        """Adds elements and returns the elements to process now.

        Elements of expired windows are dropped and counted. Time-sorted input is buffered, and
        `take_due_work` returns it later.

        Args:
            keys: the encoded keys.
            windows: the encoded windows.
            timestamps: the event times (ms).
            values: the values. All columns have the same length.
            now: the current watermarks and processing time.
            counts: the number of elements in each row, for callers that pass several elements of a
                key in one row. The default is 1.

        Raises:
            ValueError: If the columns differ in length.
        """
        check_column_lengths(keys, windows, timestamps, values)
        expired = {
            w: now.watermark > self._lifetimes.compute_expiry_time(w)
            for w in dict.fromkeys(windows)
        }
        rows = range(len(keys))
        admitted: Sequence[int] = rows
        if any(expired.values()):
            admitted = [row for row in rows if not expired[windows[row]]]
            gone = (row for row in rows if expired[windows[row]])
            self._dropped += sum(1 if counts is None else counts[row] for row in gone)
        if self._windows is None:
            of_rows = windows if admitted is rows else [windows[row] for row in admitted]
        else:
            of_rows = self._merge_windows(keys, windows, admitted)
        for key, window in dict.fromkeys(zip((keys[r] for r in admitted), of_rows, strict=True)):
            self._lifetimes.register_window(key, window, now)
        if self._spec.time_sorted_input:
            for row, window in zip(admitted, of_rows, strict=True):
                self._sorted.add_element(keys[row], window, timestamps[row], values[row])
            return AdmittedElements((), ())
        return AdmittedElements(admitted, of_rows)

    def get_state(self, kind: type[AnyState], name: str, key: bytes, window: bytes) -> AnyState:
        """Returns the user state with a name and kind for a key and window.

        Raises:
            ValueError: If the stage doesn't declare a state with this name and kind.
        """
        if self._spec.states.get(name) is not kind:
            raise ValueError(f"State {name!r} is not declared as {kind.__name__}")
        return kind(self._cells, CellId(name, key, window))

    def set_timer(self, timer: Timer) -> None:
        """Sets a timer, and replaces a timer with the same key, window, family and tag.

        A timer for a time after the expiry of its window fires when the window expires, and its
        hold is limited to the expiry. A timer that would repeat a family in a chain of timers past
        the window's end is ignored, see `expiry_timers`.

        Raises:
            ValueError: If the window is expiring, so that the timer could never fire.
        """
        if self.is_window_expiring(timer.key, timer.window):
            raise ValueError(f"Can't set the timer {timer.family!r}: its window is expiring")
        linked = self._endings.add_to_timer_chain(timer, loops=self._loops)
        if linked is None:
            return
        expiry = self._lifetimes.compute_expiry_time(timer.window)
        if linked.hold is not None and linked.hold > expiry:
            linked = attrs.evolve(linked, hold=expiry)
        self._timers.set_timer(linked)

    def is_window_expiring(self, key: bytes, window: bytes) -> bool:
        """Returns whether user code is running for the expiration of a key's window, and so must
        not set timers.
        """
        return (key, window) in self._expiring

    def clear_timer(self, key: bytes, window: bytes, family: str, tag: str = "") -> None:
        """Clears a timer if it is set."""
        self._endings.invalidate_timer_order(key, window)
        self._timers.clear_timer(key, window, family, tag)

    def take_next_due_work(self, now: CurrentTimes) -> DueWork | None:
        """Returns the next work for user code, or None if no work is due at `now`."""
        return next(iter(self.take_due_work(now, 1)), None)

    def take_due_work(
        self, now: CurrentTimes, most: int, *, looks_past: bool = False
    ) -> list[DueWork]:
        """Returns work that user code can run together, at most `most` items.

        The result contains the first due work of each key and window. If user code sets no timers,
        the result can contain several batches of sorted elements per key and window. The next work
        of a key and window depends on user code, so the caller must run all returned work before the
        next call. Returned work counts as done. The caller can stop calling at any time: due work
        stays in the queue of due times for the next bundle.

        Args:
            now: the current watermarks and processing time.
            most: the maximum number of items.
            looks_past: whether to skip work that must wait for other work of the same key and
                window. If False, such work ends the list. True needs fewer but costlier calls.
        """
        self._release_expired_windows()
        self._loops = _has_input_ended(now) and not now.draining
        due: list[DueWork] = []
        busy: set[tuple[bytes, ...]] = set()
        passed = 0
        while len(due) < most and passed <= _MAX_SKIPPED_PER_ITEM * (1 + len(due)):
            found = self._find_first_due_time(now)
            if found is None:
                break
            agenda, entry = found
            place = entry[1] if agenda is self._expiries else entry[1][1:3]
            if place in busy:
                if not looks_past:
                    break
                agenda.hide_earliest_entry(*entry)
                passed += 1
                continue
            one = self._take_work_of_due_time(agenda, entry, now)
            if one is not None:
                due.append(one)
                if self._spec.timers or not isinstance(one, SortedElements):
                    busy.add(place)
        for agenda in (self._events, self._processing, self._expiries):
            agenda.restore_hidden_entries()
        return due

    def finish_bundle(self) -> KeyedCommit:
        """Finishes the bundle, and returns its changes and the new summary of the shard."""
        self._release_expired_windows()
        if self._windows is not None:
            self._windows.save_windows()
        self._timers.save_timers()
        event, processing = self._events.get_earliest_entry(), self._processing.get_earliest_entry()
        expiry = self._expiries.get_earliest_entry()
        if self._families is not None and (event is not None or processing is not None):
            self._families.save_timer_families()
        for agenda in (self._events, self._processing, self._expiries):
            agenda.save_changes()
        self._holds.save_hold_counts()
        summary = ShardSummary(
            holds=self._holds.list_earliest_watermark_holds(),
            next_event_timer=None if event is None else get_earliest_watermark_after(event[0]),
            next_processing_timer=None if processing is None else processing[0],
            next_expiry=self._get_next_expiry(expiry, processing),
        )
        return KeyedCommit(self._cells.list_cell_deltas(), summary, self._dropped)

    def _get_next_expiry(self, expiry: Entry | None, processing: Entry | None) -> Timestamp | None:
        """Returns the next window expiry (ms); the end of the global window counts if
        processing-time timers are set.
        """
        if expiry is not None:
            return expiry[0]
        return None if processing is None else self._lifetimes.get_end_without_callback()

    def _merge_windows(
        self, keys: Sequence[bytes], windows: Sequence[bytes], rows: Sequence[int]
    ) -> list[bytes]:
        """Opens and merges the windows of elements, and returns the merged window of each element.

        `rows` are the indexes of the elements. The caller must leave out late elements.
        """
        assert self._windows is not None
        for row in rows:
            for merged_away in self._windows.open_window(keys[row], windows[row]):
                self._lifetimes.unregister_merged_window(keys[row], merged_away)
        return [self._windows.get_current_window(keys[row], windows[row]) for row in rows]

    def _find_first_due_time(self, now: CurrentTimes) -> tuple[DueTimeQueue, Entry] | None:
        """Returns the queue of due times and the entry of the earliest due work."""
        event, expiry = self._events.get_earliest_entry(), self._expiries.get_earliest_entry()
        expires = expiry if expiry is not None and expiry[0] < now.watermark else None
        if event is not None and _is_due_time_reached(event, expires, now.watermark):
            return self._events, event
        if expires is not None:
            return self._expiries, expires
        at_end = self._lifetimes.has_ended_without_callback(now.watermark)
        waiting = self._processing.get_earliest_entry()
        if waiting is None or waiting[0] > (MAX_TIMESTAMP if at_end else now.processing_time):
            return None
        return self._processing, waiting

    def _take_work_of_due_time(
        self, agenda: DueTimeQueue, entry: Entry, now: CurrentTimes
    ) -> DueWork | None:
        """Removes an entry from its queue of due times, and returns the entry's work.
        Returns None if user code has nothing to run.
        """
        if agenda is self._expiries:
            return self._expire_window(entry)
        agenda.remove_entry(*entry)
        if entry[1][0] != ELEMENTS:
            timer = self._timers.take_timer(entry[1])
            if agenda is self._processing:
                return self._fire_timer(
                    timer,
                    at_end=self._lifetimes.has_ended_without_callback(now.watermark),
                )
            # A timer after the end of its window usually fires when the window expires. The timer
            # is due only in a global window without an expiration callback, because this window
            # doesn't expire.
            expiry = self._lifetimes.compute_expiry_time(timer.window)
            drained = now.draining and _has_input_ended(now) and expiry >= END_OF_GLOBAL_WINDOW
            return self._fire_timer(timer, at_end=drained or timer.fire_time > expiry)
        _, key, window, subkey = entry[1]
        timestamp = decode_instant(subkey)
        return SortedElements(
            key, window, timestamp, self._sorted.take_elements_of_timestamp(key, window, timestamp)
        )

    def _expire_window(self, entry: Entry) -> FiredTimer | ExpiredWindow | None:
        """Returns the next pending timer of an expired window, or the window's expiration."""
        key, window = entry[1]
        timer = self._endings.get_next_timer(key, window)
        if timer is not None:
            self._timers.clear_timer(key, window, timer.family, timer.tag)
            return self._fire_timer(timer, at_end=True)
        self._expiries.remove_entry(*entry)
        self._expiring[key, window] = None
        if not self._spec.on_window_expiration:
            self._release_expired_windows()
            return None
        last = decode_window(self._spec.strategy.window_coder, window).max_timestamp()
        return ExpiredWindow(key, window, last)

    def _fire_timer(self, timer: Timer, *, at_end: bool) -> FiredTimer:
        self._endings.record_firing(timer, at_end=at_end)
        return FiredTimer(timer)

    def _release_expired_windows(self) -> None:
        """Releases the timers and state of all windows that have just expired."""
        for key, window in self._expiring:
            for timer in self._timers.list_window_timers(key, window):
                self._timers.clear_timer(key, window, timer.family, timer.tag)
            for name in self._spec.states:
                self._cells.clear_cell(CellId(name, key, window))
            self._endings.forget_window(key, window)
            self._lifetimes.unregister_window(key, window)
            if self._windows is not None:
                self._windows.close_window(key, window)
        self._expiring.clear()


def _has_input_ended(now: CurrentTimes) -> bool:
    """Returns whether the input has ended, so that neither on-time nor late elements can arrive."""
    return now.watermark > END_OF_GLOBAL_WINDOW


def _is_due_time_reached(event: Entry, expiry: Entry | None, watermark: Timestamp) -> bool:
    """Returns whether a timer or element of event time is due. If a window expires, everything up to
    its expiry is due; otherwise everything that the watermark has passed.
    """
    return (
        event[0] <= expiry[0]
        if expiry is not None
        else get_earliest_watermark_after(event[0]) <= watermark
    )
