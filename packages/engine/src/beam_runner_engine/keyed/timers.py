"""Timers of keys: set, cleared and set again, due in strict order of time, holding the watermark.

A timer is known by its key, window, family and tag; setting it again replaces it. It lies in a cell
of its key and window, and on the shard's agenda of its time domain.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_engine.keyed.agenda import Agenda
from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.holds import Holds
from beam_runner_engine.keyed.records import read_record, write_record
from beam_runner_engine.keyed.references import pack, unpack
from beam_runner_engine.keyed.tentative import TentativeCells
from beam_runner_engine.values.panes import NO_FIRING, PaneInfo, decode_pane, encode_pane
from beam_runner_engine.values.times import Timestamp

_TIMERS = "~timers"
TIMER = b"timer"
"""What references of timers begin with on an agenda."""


class TimeDomain(enum.Enum):
    """Which time a timer waits for."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


@attrs.frozen
class Timer:
    """A timer that is set; times in ms, key and window encoded.

    It fires when its domain's time comes to `fire_time`. Until then the output watermark is held
    at `hold`, which is also the timestamp of what its firing outputs; None holds nothing. `pane` is
    that of the element that set it.
    """

    key: bytes
    window: bytes
    family: str
    tag: str
    domain: TimeDomain
    fire_time: Timestamp
    hold: Timestamp | None
    pane: PaneInfo = NO_FIRING


class TimerTable:
    """The timers of a shard's keys. A key's timers are read when they are touched or due."""

    def __init__(
        self, cells: TentativeCells, event_time: Agenda, processing_time: Agenda, holds: Holds
    ) -> None:
        self._cells = cells
        self._agendas = {
            TimeDomain.EVENT_TIME: event_time,
            TimeDomain.PROCESSING_TIME: processing_time,
        }
        self._holds = holds

    def set(self, timer: Timer) -> None:
        """Sets a timer, in place of the one of the same key, window, family and tag."""
        before = self.get(timer.key, timer.window, timer.family, timer.tag)
        self._cells.replace(
            CellId(_TIMERS, timer.key, timer.window),
            (_to_record(timer),),
            _name(timer.family, timer.tag),
        )
        if before is not None:
            self._agendas[before.domain].remove(before.fire_time, _reference(before))
        self._agendas[timer.domain].add(timer.fire_time, _reference(timer))
        self._holds.move(None if before is None else before.hold, timer.hold)

    def get(self, key: bytes, window: bytes, family: str, tag: str) -> Timer | None:
        """Returns a timer if it is set."""
        stored = self._cells.read(CellId(_TIMERS, key, window), _name(family, tag))
        return _from_record(key, window, family, tag, stored[0]) if stored else None

    def clear(self, key: bytes, window: bytes, family: str, tag: str) -> Timer | None:
        """Clears a timer and returns it; None if it is not set."""
        timer = self.get(key, window, family, tag)
        if timer is not None:
            self._agendas[timer.domain].remove(timer.fire_time, _reference(timer))
            self._forget(timer)
        return timer

    def of_window(self, key: bytes, window: bytes) -> list[Timer]:
        """Returns all timers that are set for a key's window."""
        found = []
        for name, (record,) in self._cells.scan(CellId(_TIMERS, key, window)):
            family, tag = (part.decode() for part in unpack(name))
            found.append(_from_record(key, window, family, tag, record))
        return found

    def take(self, reference: tuple[bytes, ...]) -> Timer:
        """Takes a timer whose entry was taken from an agenda; it is not set any more."""
        _, key, window, family, tag = reference
        timer = self.get(key, window, family.decode(), tag.decode())
        if timer is None:
            raise ValueError(f"timer {family!r} of key {key!r} is due but the store has lost it")
        self._forget(timer)
        return timer

    def _forget(self, timer: Timer) -> None:
        self._cells.remove(CellId(_TIMERS, timer.key, timer.window), _name(timer.family, timer.tag))
        self._holds.move(timer.hold, None)


def _name(family: str, tag: str) -> bytes:
    return pack((family.encode(), tag.encode()))


def _reference(timer: Timer) -> tuple[bytes, ...]:
    return (TIMER, timer.key, timer.window, timer.family.encode(), timer.tag.encode())


def _to_record(timer: Timer) -> bytes:
    return write_record((timer.domain.value, timer.fire_time, timer.hold, encode_pane(timer.pane)))


def _from_record(key: bytes, window: bytes, family: str, tag: str, record: bytes) -> Timer:
    domain, fire_time, hold, pane = read_record(record)
    return Timer(
        key, window, family, tag, TimeDomain(domain), fire_time, hold, decode_pane(pane)[0]
    )
