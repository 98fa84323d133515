"""Timers of keys: set, replaced, cleared and fired in order of time; timers hold the watermark.

A timer is identified by key, window, family and tag. Setting the same timer again replaces it.
Timers are stored in a cell for each key and window, and on the shard's agenda of their time domain.
"""

from __future__ import annotations

import enum

import attrs
from beam_runner_model.panes import NO_FIRING, PaneInfo, decode_pane, encode_pane
from beam_runner_model.times import Timestamp

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.due_times import DueTimeQueue
from beam_runner_engine.keyed.holds import WatermarkHolds
from beam_runner_engine.keyed.records import decode_record, encode_record
from beam_runner_engine.keyed.references import pack_byte_strings, unpack_byte_strings
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_TIMERS = "~timers"
TIMER = b"timer"
"""First part of references to timers in queues of due times."""


class TimeDomain(enum.Enum):
    """Time domain of a timer: event time or processing time."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


@attrs.frozen
class Timer:
    """Timer that is set. Times are in ms; key and window are encoded.

    A timer in event time fires when the watermark passes `fire_time`. A timer in processing time
    fires when processing time reaches `fire_time`.

    Attributes:
        key: the encoded key.
        window: the encoded window.
        family: the name of the timer family.
        tag: the dynamic tag; empty for a timer without a tag.
        domain: the time domain.
        fire_time: the firing time in the time domain.
        hold: the watermark hold until the timer fires, which is also the timestamp of its outputs.
            None for no hold.
        pane: the pane of the element that set the timer.
        chain: the families of the timers that led to this timer past the end of its window. Only
            the engine sets the chain.
    """

    key: bytes
    window: bytes
    family: str
    tag: str
    domain: TimeDomain
    fire_time: Timestamp
    hold: Timestamp | None
    pane: PaneInfo = NO_FIRING
    chain: tuple[str, ...] = ()


class TimerTable:
    """Timers of a shard's keys. Timers are read when user code accesses them or when they are due.

    Changes stay in memory until `save_timers`. Most timers of bounded input fire in the bundle that
    sets them, and are therefore never encoded.
    """

    def __init__(
        self,
        cells: UncommittedCells,
        event_time: DueTimeQueue,
        processing_time: DueTimeQueue,
        holds: WatermarkHolds,
    ) -> None:
        self._cells = cells
        self._agendas = {
            TimeDomain.EVENT_TIME: event_time,
            TimeDomain.PROCESSING_TIME: processing_time,
        }
        self._holds = holds
        self._touched: dict[tuple[bytes, bytes], dict[tuple[str, str], Timer | None]] = {}

    def set_timer(self, timer: Timer) -> None:
        """Sets a timer, and replaces a timer with the same key, window, family and tag."""
        before = self.get_timer(timer.key, timer.window, timer.family, timer.tag)
        self._get_changed_timers(timer.key, timer.window)[timer.family, timer.tag] = timer
        if before is not None:
            self._agendas[before.domain].remove_entry(
                before.fire_time, _build_timer_reference(before)
            )
        self._agendas[timer.domain].add_entry(timer.fire_time, _build_timer_reference(timer))
        self._holds.move_watermark_hold(None if before is None else before.hold, timer.hold)

    def get_timer(self, key: bytes, window: bytes, family: str, tag: str) -> Timer | None:
        """Returns a timer, or None if the timer is not set."""
        touched = self._get_changed_timers(key, window)
        try:
            return touched[family, tag]
        except KeyError:
            stored = self._read_stored_timer(key, window, family, tag)
            timer = touched[family, tag] = (
                None if stored is None else _decode_timer(key, window, family, tag, stored)
            )
            return timer

    def clear_timer(self, key: bytes, window: bytes, family: str, tag: str) -> Timer | None:
        """Clears and returns a timer; returns None if the timer is not set."""
        timer = self.get_timer(key, window, family, tag)
        if timer is not None:
            self._agendas[timer.domain].remove_entry(timer.fire_time, _build_timer_reference(timer))
            self._forget_timer(timer)
        return timer

    def list_window_timers(self, key: bytes, window: bytes) -> list[Timer]:
        """Returns all timers of a key's window, ordered by family and tag."""
        names = set(self._touched.get((key, window), ()))
        for name, _ in self._cells.scan_subkeys(CellId(_TIMERS, key, window)):
            family, tag = (part.decode() for part in unpack_byte_strings(name))
            names.add((family, tag))
        timers = (self.get_timer(key, window, *name) for name in sorted(names))
        return [timer for timer in timers if timer is not None]

    def take_timer(self, reference: tuple[bytes, ...]) -> Timer:
        """Removes and returns a timer whose entry in the queue of due times was already
        removed.

        Raises:
            ValueError: If the store has no such timer.
        """
        _, key, window, family, tag = reference
        timer = self.get_timer(key, window, family.decode(), tag.decode())
        if timer is None:
            raise ValueError(
                f"Timer {family!r} of key {key!r} is due, but the state store has no record of it"
            )
        self._forget_timer(timer)
        return timer

    def read_watermark_hold(self, reference: tuple[bytes, ...]) -> Timestamp | None:
        """Returns the stored watermark hold of a timer that an entry of the queue of due
        times names.
        """
        _, key, window, family, tag = reference
        stored = self._read_stored_timer(key, window, family.decode(), tag.decode())
        return None if stored is None else decode_record(stored)[2]

    def save_timers(self) -> None:
        """Writes the changed timers to the cells. Don't use the table after this call."""
        for (key, window), timers in self._touched.items():
            cell = CellId(_TIMERS, key, window)
            for name, timer in timers.items():
                before = self._read_stored_timer(key, window, *name)
                after = None if timer is None else _encode_timer(timer)
                if after is None and before is not None:
                    self._cells.remove_subkey(cell, _encode_timer_name(*name))
                elif after is not None and after != before:
                    self._cells.replace_values(cell, (after,), _encode_timer_name(*name))

    def _get_changed_timers(self, key: bytes, window: bytes) -> dict[tuple[str, str], Timer | None]:
        place = (key, window)
        touched = self._touched.get(place)
        if touched is None:
            touched = self._touched[place] = {}
        return touched

    def _read_stored_timer(self, key: bytes, window: bytes, family: str, tag: str) -> bytes | None:
        stored = self._cells.read_values(
            CellId(_TIMERS, key, window), _encode_timer_name(family, tag)
        )
        return stored[0] if stored else None

    def _forget_timer(self, timer: Timer) -> None:
        self._touched[timer.key, timer.window][timer.family, timer.tag] = None
        self._holds.move_watermark_hold(timer.hold, None)


def _encode_timer_name(family: str, tag: str) -> bytes:
    return pack_byte_strings((family.encode(), tag.encode()))


def _build_timer_reference(timer: Timer) -> tuple[bytes, ...]:
    return (TIMER, timer.key, timer.window, timer.family.encode(), timer.tag.encode())


def _encode_timer(timer: Timer) -> bytes:
    record = (timer.domain.value, timer.fire_time, timer.hold, encode_pane(timer.pane))
    return encode_record((*record, timer.chain) if timer.chain else record)


def _decode_timer(key: bytes, window: bytes, family: str, tag: str, record: bytes) -> Timer:
    domain, fire_time, hold, pane, *rest = decode_record(record)
    return Timer(
        key,
        window,
        family,
        tag,
        TimeDomain(domain),
        fire_time,
        hold,
        decode_pane(pane)[0],
        chain=rest[0] if rest else (),
    )
