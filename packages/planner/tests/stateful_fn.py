"""A DoFn that declares state of every kind in Python, and timers of both time domains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain


class Stateful(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)
    LAST = userstate.ReadModifyWriteStateSpec("last", StrUtf8Coder())
    SEEN = userstate.SetStateSpec("seen", StrUtf8Coder())
    LIST = userstate.OrderedListStateSpec("list", StrUtf8Coder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def process(
        self,
        element: tuple[str, int],
        _count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008
        _last: Any = beam.DoFn.StateParam(LAST),  # noqa: B008
        _seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        _list: Any = beam.DoFn.StateParam(LIST),  # noqa: B008
        _alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
        _clock: Any = beam.DoFn.TimerParam(CLOCK),  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> Iterator[tuple[str, int]]:
        yield "alarm", 1

    @userstate.on_timer(CLOCK)
    def strike(self) -> Iterator[tuple[str, int]]:
        yield "clock", 1
