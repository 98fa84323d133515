"""Invariants of panes and of dropped elements, for any order of arrival."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from model import Row, Span, assigned, last_time
from partitions import RETURNS, Partition, watermarks

EARLY, ON_TIME, LATE = 0, 1, 2
_ROW = re.compile(
    r"(?P<value>\(.*\)) \[(?P<span>global|-?\d+--?\d+)\](?: @\d+)?"
    r"(?: pane (?P<timing>\d) (?P<index>\d+) (?P<later>-?\d+) (?P<first>[01])(?P<last>[01]))?"
)


@attrs.frozen
class Given:
    """An element that a source has returned.

    Attributes:
        row: the element.
        late: whether the watermark didn't wait for it.
        watermark: the watermark (ms) that its source had reported before; None at the end of time.
    """

    row: Row
    late: bool
    watermark: int | None

    def may_be_behind(self, time: int) -> bool:
        """Returns whether the watermark may have been beyond a time when the element arrived."""
        return self.watermark is None or self.watermark > time


@attrs.frozen
class Pane:
    """A pane of a key and window, or an element without a pane."""

    key: str
    span: Span
    values: Counter[int]
    timing: int
    index: int
    later: int
    is_first: bool
    is_last: bool


def given_by(partitions: Iterable[Partition]) -> dict[int, Given]:
    """Returns all elements of partitions by their values."""
    found = {}
    for partition in partitions:
        marks = watermarks(partition)
        for action, mark in zip(partition[1], marks, strict=True):
            if action[0] in RETURNS:
                kind, key, value, time = action
                found[value] = Given(Row(key, value, time), kind == "late", mark)
    return found


def panes_of(rows: Counter[str]) -> list[Pane]:
    """Returns the panes that a tap has written as rows."""
    return [_pane(row) for row in rows.elements()]


def _pane(row: str) -> Pane:
    found = _ROW.fullmatch(row)
    assert found is not None, row
    key, values = ast.literal_eval(found["value"])
    span: Span = None
    if found["span"] != "global":
        start, end = found["span"].split("-")
        span = int(start), int(end)
    counted = Counter(values if isinstance(values, tuple) else (values,))
    timing, index, later = (int(found[name] or 0) for name in ("timing", "index", "later"))
    return Pane(
        key, span, counted, timing, index, later, found["first"] == "1", found["last"] == "1"
    )


def broken_sequences(panes: Iterable[Pane]) -> Iterator[str]:
    """Returns the errors in the numbers and flags of the panes of each key and window."""
    together = defaultdict[tuple[str, Span], list[Pane]](list)
    for pane in panes:
        together[pane.key, pane.span].append(pane)
    for (key, span), several in together.items():
        several.sort(key=lambda pane: pane.index)
        where = f"key {key} window {span}"
        if [pane.index for pane in several] != list(range(len(several))):
            yield f"{where}: indices {[pane.index for pane in several]}"
        if [pane.is_first for pane in several] != [pane.index == 0 for pane in several]:
            yield f"{where}: a pane other than that of index 0 is first, or that one isn't"
        if any(pane.is_last for pane in several[:-1]):
            yield f"{where}: a pane follows the last one"
        timings = [pane.timing for pane in several]
        if timings != sorted(timings) or timings.count(ON_TIME) > 1:
            yield f"{where}: timings {timings}"
        later = [pane.later for pane in several if pane.timing != EARLY]
        if later != list(range(len(later))):
            yield f"{where}: nonspeculative indices {later}"
        if any(pane.later != -1 for pane in several if pane.timing == EARLY):
            yield f"{where}: an early pane has a nonspeculative index"


def broken_values(
    panes: Iterable[Pane], given: Mapping[int, Given], fn: tuple[Any, ...], accumulating: bool
) -> Iterator[str]:
    """Returns the errors in the values of panes: each element is in one pane of each window."""
    together = defaultdict[tuple[str, Span], list[Pane]](list)
    for pane in panes:
        together[pane.key, pane.span].append(pane)
    for (key, span), several in together.items():
        several.sort(key=lambda pane: pane.index)
        where = f"key {key} window {span}"
        for value in {value for pane in several for value in pane.values}:
            if given[value].row.key != key or not _is_in(span, fn, given[value].row):
                yield f"{where}: a foreign value {value}"
        if accumulating:
            for before, after in itertools.pairwise(several):
                if before.values - after.values:
                    yield f"{where}: pane {after.index} lacks {before.values - after.values}"
        total = Counter[int]()
        for pane in several[-1:] if accumulating else several:
            total += pane.values
        if any(count > 1 for count in total.values()):
            yield f"{where}: values more than once {total}"


def _is_in(span: Span, fn: tuple[Any, ...], row: Row) -> bool:
    spans = list(assigned(fn, row))
    if span is None or fn[0] in ("fixed", "sliding"):
        return span in spans
    return all(each is not None and span[0] <= each[0] and each[1] <= span[1] for each in spans)


def late_panes_with_others(
    panes: Iterable[Pane], given: Mapping[int, Given], accumulating: bool
) -> Iterator[str]:
    """Returns late panes that have elements that weren't late."""
    for pane in panes:
        if pane.timing == LATE and not accumulating:
            others = [value for value in pane.values if not given[value].late]
            if others:
                yield f"key {pane.key} window {pane.span}: late pane {pane.index} has {others}, which weren't late"


def missing(
    panes: Iterable[Pane], given: Mapping[int, Given], fn: tuple[Any, ...]
) -> Counter[tuple[int, Span]]:
    """Returns the elements that are in no pane, once for each of their windows."""
    merging = fn[0] not in ("global", "fixed", "sliding")
    seen = {(value, None if merging else pane.span) for pane in panes for value in pane.values}
    found = Counter[tuple[int, Span]]()
    for value, each in given.items():
        for span in assigned(fn, each.row):
            if (value, None if merging else span) not in seen:
                found[value, span] += 1
    return found


def wrongly_dropped(
    dropped: Iterable[tuple[int, Span]], given: Mapping[int, Given], lateness: int
) -> Iterator[str]:
    """Returns the dropped elements whose window can't have been beyond its lateness."""
    for value, span in dropped:
        if not given[value].may_be_behind(last_time(span) + lateness):
            yield f"value {value} in window {span} is missing; the watermark was {given[value].watermark} at most"
