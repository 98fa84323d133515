"""Stateful processing: what a shard does around user code that has state and timers.

The host runs user code; the shard says what is next, and takes what user code does to state and
timers:

admitted = shard.admit(keys, windows, timestamps, values, now) ... user code processes the admitted
elements, using shard.state() and shard.set_timer() ... while (due := shard.next_due(now)) is not
None: ... user code runs the timer, the sorted elements, or the window's expiration ... commit =
shard.commit()

| due | when | in which order |
|---|---|---|
| sorted elements | the watermark has passed their timestamp plus lateness | by time, before timers |
| event-time timer | the watermark has passed its time | by time, also those that timers set |
| window expiration | the watermark has passed its expiry | by time, after timers |
| processing-time timer | processing time is at its time | by time, after the others |

A watermark passes a time when it is beyond it, see `passing_watermark`. Windows expire by event
time alone. All timers that still wait in a window then ring before the window expires: those set
for a later time, and those that wait for the clock. So neither bounded input nor a drain waits for
the clock or ends without them. `endings` has the rules. In a drain the global window ends where the
input ends, since event-time timers that set themselves would go on to the end of time.

The order holds for each key and window. User code that runs for one of them can't change what is due
for another, so the first thing of each can run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    Timestamp,
    passing_watermark,
)
from beam_runner_model.window_coders import decode_instant, decode_window

from beam_runner_engine.keyed.agenda import Agenda, Entry
from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.columns import check_lengths
from beam_runner_engine.keyed.commits import KeyedCommit
from beam_runner_engine.keyed.endings import Endings
from beam_runner_engine.keyed.holds import Holds
from beam_runner_engine.keyed.lifetimes import Lifetimes
from beam_runner_engine.keyed.merging import merger_for
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.keyed.ports import CellStore, WindowMerger
from beam_runner_engine.keyed.sorted_input import ELEMENTS, SortedInput
from beam_runner_engine.keyed.state import State
from beam_runner_engine.keyed.stateful_merging import StatefulWindows
from beam_runner_engine.keyed.tentative import TentativeCells
from beam_runner_engine.keyed.timers import Timer, TimerTable

AnyState = TypeVar("AnyState", bound=State)

_PASSED_FOR_EACH = 10
"""How many entries are passed over for each that is due, if that costs less than another turn."""


@attrs.frozen
class StatefulSpec:
    """What the user code of a stateful stage declares.

    `states` are the kinds of its state cells by name. `on_window_expiration` says that it is to be
    told when a window expires, `time_sorted_input` that elements must come in order of time, `timers`
    that it may set timers.
    """

    strategy: WindowingStrategy
    states: dict[str, type[State]] = attrs.field(factory=dict)
    on_window_expiration: bool = False
    time_sorted_input: bool = False
    timers: bool = True

    @states.validator
    def _names(self, attribute: Any, states: dict[str, type[State]]) -> None:
        for name in states:
            if name.startswith("~"):
                raise ValueError(f"state {name!r}: names that start with ~ are the engine's own")


@attrs.frozen
class Admitted:
    """The elements to process now: the numbers of their rows, and the windows they are in.

    `windows` has one encoded window per admitted row, the merged one if windows merge.
    """

    rows: Sequence[int]
    windows: Sequence[bytes]


@attrs.frozen
class TimerFired:
    """A timer is due: user code for its family is to run, at `timer.hold` if it has one."""

    timer: Timer


@attrs.frozen
class ElementsSorted:
    """Elements of a key and window whose turn it is; they have one timestamp (ms)."""

    key: bytes
    window: bytes
    timestamp: Timestamp
    values: Sequence[Any]


@attrs.frozen
class WindowExpired:
    """A key's window expires: user code runs a last time, at the window's last timestamp (ms)."""

    key: bytes
    window: bytes
    timestamp: Timestamp


Due: TypeAlias = TimerFired | ElementsSorted | WindowExpired


class StatefulShard:
    """One shard of a stateful stage for the length of one bundle.

    Reads the cells of the keys that are touched or due, no others. Raises ValueError if windows
    must be merged by a `WindowMerger` that is None.
    """

    def __init__(
        self, spec: StatefulSpec, store: CellStore, merger: WindowMerger | None = None
    ) -> None:
        self._spec = spec
        self._cells = TentativeCells(store)
        self._events = Agenda(self._cells, "~event agenda")
        self._processing = Agenda(self._cells, "~processing agenda")
        self._expiries = Agenda(self._cells, "~expiry agenda")
        self._holds = Holds(self._cells)
        self._timers = TimerTable(self._cells, self._events, self._processing, self._holds)
        self._endings = Endings(self._timers)
        self._lifetimes = Lifetimes(
            spec.strategy,
            self._cells,
            self._expiries,
            self._holds,
            calls_back=spec.on_window_expiration,
        )
        lateness = spec.strategy.allowed_lateness
        self._sorted = SortedInput(
            self._cells, self._events, self._holds, lateness, self._lifetimes.expiry
        )
        merging = merger_for(spec.strategy, merger)
        self._windows = (
            None
            if merging is None
            else StatefulWindows(
                spec.strategy, spec.states, self._cells, merging, self._timers, self._sorted
            )
        )
        self._expiring: dict[tuple[bytes, bytes], None] = {}
        self._loops = False
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """The number of elements that were dropped because their window had expired."""
        return self._dropped

    def admit(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
        now: Now,
        counts: Sequence[int] | None = None,
    ) -> Admitted:
        """Takes elements in, as columns of one length, and returns those to process now.

        Keys and windows are encoded, timestamps in ms. Elements whose window has expired are
        dropped and counted; time-sorted input waits, and comes back from `due_together`. A row is one
        element, or as many as `counts` says if a host admits the elements of a key together.
        """
        check_lengths(keys, windows, timestamps, values)
        expired = {w: now.watermark > self._lifetimes.expiry(w) for w in dict.fromkeys(windows)}
        rows = range(len(keys))
        admitted: Sequence[int] = rows
        if any(expired.values()):
            admitted = [row for row in rows if not expired[windows[row]]]
            gone = (row for row in rows if expired[windows[row]])
            self._dropped += sum(1 if counts is None else counts[row] for row in gone)
        if self._windows is None:
            of_rows = windows if admitted is rows else [windows[row] for row in admitted]
        else:
            of_rows = self._merge(keys, windows, admitted)
        for key, window in dict.fromkeys(zip((keys[r] for r in admitted), of_rows, strict=True)):
            self._lifetimes.begin(key, window, now)
        if self._spec.time_sorted_input:
            for row, window in zip(admitted, of_rows, strict=True):
                self._sorted.add(keys[row], window, timestamps[row], values[row])
            return Admitted((), ())
        return Admitted(admitted, of_rows)

    def state(self, kind: type[AnyState], name: str, key: bytes, window: bytes) -> AnyState:
        """Returns a state cell of a key and window; ValueError if it isn't declared so."""
        if self._spec.states.get(name) is not kind:
            raise ValueError(f"state {name!r} is not declared as {kind.__name__}")
        return kind(self._cells, CellId(name, key, window))

    def set_timer(self, timer: Timer) -> None:
        """Sets a timer, in place of one of the same key, window, family and tag.

        A timer for a time beyond its window's expiry rings when the window expires, and holds the
        watermark no longer than that. A call that would repeat a family in a chain of timers past
        the window's end changes nothing, see `endings`. Raises ValueError while the window expires:
        no time is left for a timer.
        """
        if self.is_expiring(timer.key, timer.window):
            raise ValueError(f"timer {timer.family!r} is set while its window expires")
        linked = self._endings.link(timer, loops=self._loops)
        if linked is None:
            return
        expiry = self._lifetimes.expiry(timer.window)
        if linked.hold is not None and linked.hold > expiry:
            linked = attrs.evolve(linked, hold=expiry)
        self._timers.set(linked)

    def is_expiring(self, key: bytes, window: bytes) -> bool:
        """Returns whether user code runs for the expiration of a key's window: it must set no timer."""
        return (key, window) in self._expiring

    def clear_timer(self, key: bytes, window: bytes, family: str, tag: str = "") -> None:
        """Clears a timer if it is set."""
        self._endings.change(key, window)
        self._timers.clear(key, window, family, tag)

    def next_due(self, now: Now) -> Due | None:
        """Returns what user code is to run next, None if nothing is due at `now`."""
        return next(iter(self.due_together(now, 1)), None)

    def due_together(self, now: Now, most: int, *, looks_past: bool = False) -> list[Due]:
        """Returns what user code can run together, at most `most` things; nothing if none is due at `now`.

        That is the first thing that is due for each key and window; of sorted elements several,
        where user code sets no timers. What comes next for a key and window depends on what user
        code does, so the host has it run all of this before it asks again. What is returned counts
        as done. The host may stop asking at any time: what is still due stays on the agenda for the
        next bundle.

        Args:
            now: the times until which things are due.
            most: how many things are returned at most.
            looks_past: whether to look past things that must wait for others of their key and
                window. Without it they end the list. With it there are fewer turns, and each costs
                more: for a host whose turns are dear.
        """
        self._finish_expiries()
        self._loops = _has_ended(now) and not now.draining
        due: list[Due] = []
        busy: set[tuple[bytes, ...]] = set()
        passed = 0
        while len(due) < most and passed <= _PASSED_FOR_EACH * (1 + len(due)):
            found = self._first_due(now)
            if found is None:
                break
            agenda, entry = found
            place = entry[1] if agenda is self._expiries else entry[1][1:3]
            if place in busy:
                if not looks_past:
                    break
                agenda.pass_over(*entry)
                passed += 1
                continue
            one = self._take(agenda, entry, now)
            if one is not None:
                due.append(one)
                if self._spec.timers or not isinstance(one, ElementsSorted):
                    busy.add(place)
        for agenda in (self._events, self._processing, self._expiries):
            agenda.look_again()
        return due

    def commit(self) -> KeyedCommit:
        """Ends the bundle: returns what changed, and the shard's new summary."""
        self._finish_expiries()
        if self._windows is not None:
            self._windows.save()
        self._timers.save()
        event, processing = self._events.first(), self._processing.first()
        expiry = self._expiries.first()
        for agenda in (self._events, self._processing, self._expiries):
            agenda.save()
        self._holds.save()
        summary = ShardSummary(
            holds=self._holds.earliest(),
            next_event_timer=None if event is None else passing_watermark(event[0]),
            next_processing_timer=None if processing is None else processing[0],
            next_expiry=self._next_expiry(expiry, processing),
        )
        return KeyedCommit(self._cells.deltas(), summary, self._dropped)

    def _next_expiry(self, expiry: Entry | None, processing: Entry | None) -> Timestamp | None:
        """When windows expire next; the end of the global one counts where timers wait for the clock."""
        if expiry is not None:
            return expiry[0]
        return None if processing is None else self._lifetimes.untold_end()

    def _merge(
        self, keys: Sequence[bytes], windows: Sequence[bytes], rows: Sequence[int]
    ) -> list[bytes]:
        """Merges the windows of all admitted rows and returns each row's final window."""
        assert self._windows is not None
        for row in rows:
            for merged_away in self._windows.enter(keys[row], windows[row]):
                self._lifetimes.merge_away(keys[row], merged_away)
        return [self._windows.current(keys[row], windows[row]) for row in rows]

    def _first_due(self, now: Now) -> tuple[Agenda, Entry] | None:
        """Returns the earliest entry that is due, and the agenda that it is on."""
        event, expiry = self._events.first(), self._expiries.first()
        expires = expiry if expiry is not None and expiry[0] < now.watermark else None
        if event is not None and _is_due(event, expires, now.watermark):
            return self._events, event
        if expires is not None:
            return self._expiries, expires
        at_end = self._lifetimes.all_ended(now.watermark)
        waiting = self._processing.first()
        if waiting is None or waiting[0] > (MAX_TIMESTAMP if at_end else now.processing_time):
            return None
        return self._processing, waiting

    def _take(self, agenda: Agenda, entry: Entry, now: Now) -> Due | None:
        """Takes an entry off its agenda; None if user code has nothing to do for it."""
        if agenda is self._expiries:
            return self._expire(entry)
        agenda.remove(*entry)
        if entry[1][0] != ELEMENTS:
            timer = self._timers.take(entry[1])
            if agenda is self._processing:
                return self._ring(timer, at_end=self._lifetimes.all_ended(now.watermark))
            # A timer for a time past its window gets here in the global one only, and only if
            # nobody is to be told its end.
            expiry = self._lifetimes.expiry(timer.window)
            drained = now.draining and _has_ended(now) and expiry >= END_OF_GLOBAL_WINDOW
            return self._ring(timer, at_end=drained or timer.fire_time > expiry)
        _, key, window, subkey = entry[1]
        timestamp = decode_instant(subkey)
        return ElementsSorted(key, window, timestamp, self._sorted.take(key, window, timestamp))

    def _expire(self, entry: Entry) -> TimerFired | WindowExpired | None:
        """Returns the next timer that waits in a window that ends, or its expiration."""
        key, window = entry[1]
        timer = self._endings.first(key, window)
        if timer is not None:
            self._timers.clear(key, window, timer.family, timer.tag)
            return self._ring(timer, at_end=True)
        self._expiries.remove(*entry)
        self._expiring[key, window] = None
        if not self._spec.on_window_expiration:
            self._finish_expiries()
            return None
        last = decode_window(self._spec.strategy.window_coder, window).max_timestamp()
        return WindowExpired(key, window, last)

    def _ring(self, timer: Timer, *, at_end: bool) -> TimerFired:
        self._endings.ring(timer, at_end=at_end)
        return TimerFired(timer)

    def _finish_expiries(self) -> None:
        """Releases everything that keys have in the windows that have just expired."""
        for key, window in self._expiring:
            for timer in self._timers.of_window(key, window):
                self._timers.clear(key, window, timer.family, timer.tag)
            for name in self._spec.states:
                self._cells.clear(CellId(name, key, window))
            self._endings.forget(key, window)
            self._lifetimes.end(key, window)
            if self._windows is not None:
                self._windows.close(key, window)
        self._expiring.clear()


def _has_ended(now: Now) -> bool:
    """Returns whether the input has ended: nothing comes any more, on time or late."""
    return now.watermark > END_OF_GLOBAL_WINDOW


def _is_due(event: Entry, expiry: Entry | None, watermark: Timestamp) -> bool:
    """Whether an event-time entry comes before the window that expires next, or without one, now."""
    return event[0] <= expiry[0] if expiry is not None else passing_watermark(event[0]) <= watermark
