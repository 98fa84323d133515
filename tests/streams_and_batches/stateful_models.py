"""A model of each operation with state and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from model import Row, Rows, groups, last_time
from span_windows import SAFE
from stateful_operations import FIRST, SECOND, THIRD


def collect(given: Rows, when: str) -> Rows:
    pairs = given.groupable()
    if not pairs.inside:
        pairs = pairs.in_windows(SAFE)
    made = []
    for key, span, rows in groups(pairs):
        made.append(Row(key, tuple(sorted(row.value for row in rows)), last_time(span), span))
    return Rows(tuple(made), pairs.windows, grouped=True).restamped()


def loop(given: Rows, period: int) -> Rows:
    pairs = given.in_intervals(inside=True)
    made = []
    for key, span, rows in groups(pairs):
        assert span is not None
        for tick in range(span[0] + period, span[1], period):
            values = tuple(sorted(row.value for row in rows if row.time <= tick))
            if values:
                made.append(Row(key, values, tick, span))
    return attrs.evolve(pairs, rows=tuple(made), grouped=False)


def alarms(given: Rows) -> Rows:
    pairs = given.in_intervals(inside=True)
    short = pairs.each(_too_late_to_ring)
    # Elements with the same key, window, value and time have the same timers.
    rings = attrs.evolve(pairs, rows=tuple(dict.fromkeys(pairs.rows))).each(_rung)
    return attrs.evolve(pairs, rows=short.rows + rings.rows, grouped=False)


def _has_time(row: Row) -> bool:
    return row.time + THIRD <= last_time(row.span)


def _too_late_to_ring(row: Row) -> Iterator[Row]:
    if not _has_time(row):
        yield attrs.evolve(row, value=("short", row.value))


def _rung(row: Row) -> Iterator[Row]:
    if not _has_time(row):
        return
    yield attrs.evolve(row, value=("first", row.value), time=row.time + FIRST)
    second: Any = {0: None, 1: THIRD, 2: SECOND}[row.value % 3]
    if second is not None:
        yield attrs.evolve(row, value=("second", row.value), time=row.time + second)


def relay(given: Rows, by_event: bool, seconds: float) -> Rows:
    return attrs.evolve(given.in_intervals(), grouped=False).restamped()


STATEFUL_MODELS: dict[str, Callable[..., Rows]] = {
    "collect": collect,
    "loop": loop,
    "alarms": alarms,
    "relay": relay,
}
