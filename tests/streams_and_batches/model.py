"""A model of the operations without Beam: rows in, rows out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import attrs
from span_windows import GLOBAL, GLOBAL_END, SAFE, Windows, gaps_of
from values_of_elements import number_of

Span: TypeAlias = tuple[int, int] | None
"""Start and end (ms) of a window; None for the global window."""
ON_TIME = "1 0 0 11"
"""The pane of a window that fires once."""


@attrs.frozen
class Row:
    """An element in one window; times are in milliseconds."""

    key: str
    value: Any
    time: int
    span: Span = None


@attrs.frozen
class Rows:
    """A collection.

    Attributes:
        rows: its elements.
        windows: its windowing strategy.
        grouped: whether the elements are results of a grouping in these windows.
        inside: whether the timestamps lie in the windows.
    """

    rows: tuple[Row, ...]
    windows: Windows = Windows()  # noqa: RUF009 - it is frozen
    grouped: bool = False
    inside: bool = True

    @property
    def ended(self) -> bool:
        """Whether the elements come at the end of the global window."""
        return self.windows.fn == GLOBAL and not self.inside

    def each(self, function: Callable[[Row], Iterable[Row]]) -> Rows:
        """Returns the rows that a function returns for each row."""
        rows = tuple(made for row in self.rows for made in function(row))
        return attrs.evolve(self, rows=rows)

    def in_windows(self, windows: Windows) -> Rows:
        """Returns the elements in other windows."""
        # Beam's WindowInto reads the window, so it assigns an element once for each of its windows.
        made = []
        for row in self.rows:
            made += [attrs.evolve(row, span=span) for span in assigned(windows.fn, row)]
        return Rows(tuple(made), windows)

    def pairs(self) -> Rows:
        """Returns pairs of a text and a number."""
        return self.each(lambda row: [attrs.evolve(row, value=number_of(row.value))])

    def groupable(self) -> Rows:
        """Returns pairs in windows in which they can be grouped."""
        merged = self.windows.merge and self.grouped
        if merged or (self.windows.combiner != "end" and not self.inside):
            return self.pairs().in_windows(SAFE)
        return self.pairs()

    def restamped(self) -> Rows:
        """Returns the elements at the end of their windows."""
        if self.windows.fn == GLOBAL:
            return attrs.evolve(self, inside=False)
        rows = tuple(attrs.evolve(row, time=last_time(row.span) + 1) for row in self.rows)
        return attrs.evolve(self, rows=rows, inside=False)

    def in_intervals(self, inside: bool = False) -> Rows:
        """Returns pairs in windows that don't merge and have a start; if wanted, with timestamps in them."""
        if self.windows.merge or self.windows.fn == GLOBAL or (inside and not self.inside):
            return self.pairs().in_windows(SAFE)
        return self.pairs()


def assigned(fn: tuple[Any, ...], row: Row) -> Iterator[Span]:
    match fn:
        case ("global",):
            yield None
        case ("fixed", size, offset):
            start = row.time - (row.time - offset) % size
            yield start, start + size
        case ("sliding", size, period, offset):
            start = row.time - (row.time - offset) % period
            while start > row.time - size:
                yield start, start + size
                start -= period
        case ("sessions", gap):
            yield row.time, row.time + gap
        case ("spans", gap):
            yield row.time, row.time + gap * gaps_of(row.value)
        case ("blocks", size):
            start = row.time - row.time % size
            yield start, start + size * gaps_of(row.value)


def last_time(span: Span) -> int:
    """Returns the last millisecond of a window."""
    return GLOBAL_END if span is None else span[1] - 1


def groups(collection: Rows) -> list[tuple[str, Span, list[Row]]]:
    """Returns the elements of each key and window, with merged windows."""
    by_key = defaultdict[str, list[Row]](list)
    for row in collection.rows:
        by_key[row.key].append(row)
    found = []
    for key, rows in by_key.items():
        merged = _merged(row.span for row in rows) if collection.windows.merge else {}
        by_span = defaultdict[Span, list[Row]](list)
        for row in rows:
            by_span[merged.get(row.span, row.span)].append(row)
        found += [(key, span, each) for span, each in by_span.items()]
    return found


def _merged(spans: Iterable[Span]) -> dict[Span, Span]:
    """Returns the merged window of each window."""
    found: dict[Span, Span] = {}
    together: list[tuple[int, int]] = []
    end = 0
    for span in sorted({span for span in spans if span is not None}):
        if span[0] >= end:
            together = []
        together.append(span)
        end = max(end, span[1])
        found |= dict.fromkeys(together, (together[0][0], end))
    return found


def grouped(collection: Rows, value_of: Callable[[list[Row]], Any]) -> Rows:
    """Returns one row for each key and window, with the timestamp of the timestamp combiner."""
    made = []
    for key, span, rows in groups(collection):
        times = [row.time for row in rows]
        at = {"end": last_time(span), "earliest": min(times), "latest": max(times)}
        made.append(Row(key, value_of(rows), at[collection.windows.combiner], span))
    windows = collection.windows
    return Rows(tuple(made), windows, grouped=True, inside=windows.has_times)
