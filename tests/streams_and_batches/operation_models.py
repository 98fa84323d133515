"""A model of each operation without state and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from folds import FOLDS
from model import Row, Rows, Span, assigned, grouped, last_time
from partitions import Partition, elements
from span_windows import Windows
from unfolding import parts_of


def source(partitions: tuple[Partition, ...]) -> Rows:
    found = (action for partition in partitions for action in elements(partition))
    return Rows(tuple(Row(key, value, time) for _, key, value, time in found))


def flatten(*inputs: Rows) -> Rows:
    first, *others = inputs
    if all(each.windows == first.windows for each in others):
        rows = tuple(row for each in inputs for row in each.rows)
        grouped_any = any(each.grouped for each in inputs)
        return Rows(rows, first.windows, grouped_any, all(each.inside for each in inputs))
    whole = (each.in_windows(Windows()) for each in inputs)
    return Rows(tuple(row for each in whole for row in each.rows))


def window(given: Rows, fn: tuple[Any, ...], combiner: str) -> Rows:
    return given.pairs().in_windows(Windows(fn, combiner))


def rekey(given: Rows, keys: int) -> Rows:
    return given.pairs().each(lambda row: [attrs.evolve(row, key=f"r{row.value % keys}")])


def shift(given: Rows, by: int, fn: tuple[Any, ...], combiner: str) -> Rows:
    whole = given.pairs().in_windows(Windows())
    moved = whole.each(lambda row: [attrs.evolve(row, time=row.time + by * (row.value % 3))])
    return moved.in_windows(Windows(fn, combiner))


def unfold(given: Rows, by: int, fn: tuple[Any, ...], combiner: str) -> Rows:
    whole = given.pairs().in_windows(Windows())
    unfolded = whole.each(
        lambda row: [
            attrs.evolve(row, value=row.value + part, time=row.time + by * part)
            for part in range(parts_of(row.value))
        ]
    )
    return unfolded.in_windows(Windows(fn, combiner))


def tags(given: Rows, take: str) -> Rows:
    wanted = {"even": (0,), "odd": (1,), "both": (0, 1)}[take]
    return given.pairs().each(lambda row: [row] if row.value % 2 in wanted else [])


def reshuffle(given: Rows) -> Rows:
    return given.pairs()


def first_of(*inputs: Rows) -> Rows:
    return inputs[0]


def group(given: Rows) -> Rows:
    return grouped(given.groupable(), lambda rows: _in_order(rows))


def combine(given: Rows, fold: str, way: str) -> Rows:
    of_all = FOLDS[fold][1]
    return grouped(given.groupable(), lambda rows: of_all([row.value for row in rows]))


def globally(given: Rows, fold: str, way: str) -> Rows:
    one_key = given.groupable().each(lambda row: [attrs.evolve(row, key="all")])
    of_all = FOLDS[fold][1]
    return grouped(one_key, lambda rows: of_all([row.value for row in rows]))


def distinct(given: Rows, modulus: int) -> Rows:
    # Beam groups by the whole element, so windows merge for each element alone.
    few = given.groupable().each(
        lambda row: [attrs.evolve(row, key=(row.key, row.value % modulus))]
    )
    found = grouped(few, lambda rows: rows[0].key[1])
    return found.each(lambda row: [attrs.evolve(row, key=row.key[0])])


def join(first: Rows, second: Rows, fn: tuple[Any, ...], combiner: str) -> Rows:
    windows = Windows(fn, combiner)
    both = [each.pairs().in_windows(windows) for each in (first, second)]
    marked = [
        attrs.evolve(row, value=(which, row.value))
        for which, each in enumerate(both)
        for row in each.rows
    ]
    return grouped(
        Rows(tuple(marked), windows),
        lambda rows: tuple(_in_order(_of(which, rows)) for which in (0, 1)),
    )


def _of(which: int, rows: Iterable[Row]) -> list[Row]:
    return [attrs.evolve(row, value=row.value[1]) for row in rows if row.value[0] == which]


def batches(given: Rows, size: int, seconds: float | None) -> Rows:
    return attrs.evolve(given.in_intervals(), grouped=False).restamped()


def side(
    main: Rows, beside: Rows, fn: tuple[Any, ...], side_fn: tuple[Any, ...], view: str
) -> Rows:
    first = main.pairs().in_windows(Windows(fn))
    second = beside.pairs().in_windows(Windows(side_fn))
    values: dict[Span, list[Row]] = {}
    for row in second.rows:
        values.setdefault(row.span, []).append(row)

    def found(row: Row) -> Any:
        *_, span = assigned(side_fn, attrs.evolve(row, time=last_time(row.span)))
        rows = values.get(span, [])
        match view:
            case "singleton":
                return sum(each.value for each in rows) if rows else -1
            case "dict":
                sums = grouped(Rows(tuple(rows)), lambda each: sum(one.value for one in each))
                return tuple(sorted((each.key, each.value) for each in sums.rows))
        return _in_order(rows)

    return first.each(lambda row: [attrs.evolve(row, value=(row.value, found(row)))])


def _in_order(rows: Iterable[Row]) -> tuple[Any, ...]:
    return tuple(sorted(row.value for row in rows))


MODELS: dict[str, Callable[..., Rows]] = {
    "source": source,
    "bounded": source,
    "flatten": flatten,
    "window": window,
    "rekey": rekey,
    "shift": shift,
    "unfold": unfold,
    "tags": tags,
    "reshuffle": reshuffle,
    "first_of": first_of,
    "group": group,
    "combine": combine,
    "globally": globally,
    "distinct": distinct,
    "join": join,
    "batches": batches,
    "side": side,
}
