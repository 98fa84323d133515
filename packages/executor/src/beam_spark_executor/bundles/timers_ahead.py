"""Several timers of a key in one go: told on trust, and looked at afterwards.

What is due next for a key depends on user code: a timer may clear the one after it, or set one in
between. An SDK tells that only when it has settled, which costs milliseconds. So a key whose timers
changed none is trusted with twice as many the next time. If user code then did change what it had been
told, the bundle begins again, and tells its timers one by one: nobody has seen anything of it.
"""

from __future__ import annotations

import attrs
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.values.times import Timestamp

_Order = tuple[bool, Timestamp]
"""When a timer fires among those of its key: those in processing time come after the others."""
_Kind = bytes | None
"""None in event time. Those in processing time fire window by window where windows expire."""
_Name = tuple[bytes, str, str]
"""A timer of a key: its window, family and tag."""


class TimersTouched(Exception):
    """User code changed a timer that it had been told already."""


@attrs.define
class Trust:
    """Whether timers of a stage are told ahead: not once one of them was touched.

    Attributes:
        kept: whether they are.
    """

    kept: bool = True


@attrs.define
class _Told:
    """What a key was told since all was settled.

    Attributes:
        most: how many timers it may be told.
        later: all but the first, which has fired whatever becomes of it.
        last: when the last of them fires.
        kind: that of all of them, as long as they are not `mixed`: then only the engine knows their order.
        quiet: whether user code has changed none of its timers, told or not.
        touched: whether it has changed what it was told ahead.
    """

    most: int
    last: _Order
    kind: _Kind
    later: set[_Name] = attrs.field(factory=set)
    mixed: bool = False
    quiet: bool = True
    touched: bool = False


class TimersAhead:
    """The timers that keys were told since all was settled.

    Attributes:
        keys: those that may be told more.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._told: dict[bytes, _Told] = {}
        self._most: dict[bytes, int] = {}
        self.keys: set[bytes] = set()

    def tell(self, timer: Timer) -> None:
        """A timer is told to user code, after those before it."""
        name = (timer.window, timer.family, timer.tag)
        order = _order(timer.domain, timer.fire_time)
        kind = timer.window if timer.domain is TimeDomain.PROCESSING_TIME else None
        told = self._told.get(timer.key)
        if told is None:
            most = self._most.get(timer.key, 1) if self._trust.kept else 1
            self._told[timer.key] = _Told(most, order, kind)
            if most > 1:
                self.keys.add(timer.key)
            return
        told.later.add(name)
        told.last = max(told.last, order)
        told.mixed = told.mixed or kind != told.kind
        if len(told.later) + 1 >= told.most:
            self.keys.discard(timer.key)

    def changed(
        self,
        key: bytes,
        window: bytes,
        family: str,
        tag: str,
        to: tuple[TimeDomain, Timestamp] | None,
    ) -> None:
        """User code has set a timer to fire then, or cleared it."""
        told = self._told.get(key)
        if told is None:
            return
        told.quiet = False
        if (
            (window, family, tag) in told.later
            or (told.later and told.mixed)
            or (told.later and to is not None and _order(*to) <= told.last)
        ):
            told.touched = True

    def settled(self) -> None:
        """All that was told has been processed.

        Raises:
            TimersTouched: user code changed a timer that it was told ahead.
        """
        if any(told.touched for told in self._told.values()):
            self._trust.kept = False
            raise TimersTouched
        self._most = {key: 2 * told.most for key, told in self._told.items() if told.quiet}
        self._told.clear()
        self.keys.clear()


def _order(domain: TimeDomain, time: Timestamp) -> _Order:
    return domain is TimeDomain.PROCESSING_TIME, time
