"""Steps that summarize a complete collection, or all values of a key, with Beam's own combiners."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms import combiners
from apache_beam.transforms.stats import ApproximateQuantiles, ApproximateUnique
from side_inputs import global_if_merging
from typed import Collection, digits, keyed, numbers_by_key
from values import Kind
from windows import GLOBAL

_WHOLE: dict[str, tuple[Callable[[], Any], Kind]] = {
    "count": (combiners.Count.Globally, "int"),
    "mean": (combiners.Mean.Globally, "float"),
    "set": (combiners.ToSet, ("bag", "int")),
    "list": (combiners.ToList, ("bag", "int")),
    "sample": (lambda: combiners.Sample.FixedSizeGlobally(1000), ("bag", "int")),
    "top": (lambda: combiners.Top.Of(3), ("list", "int")),
    "last digits": (lambda: combiners.Top.Of(2, key=_last_digit), ("list", "int")),
    "least": (lambda: combiners.Top.Of(2, reverse=True), ("list", "int")),
}
"""Combine functions with a default for a window without elements."""
_PER_KEY: dict[str, tuple[Callable[[], Any], Kind]] = {
    "mean": (combiners.Mean.PerKey, "float"),
    "least": (lambda: combiners.Top.SmallestPerKey(2), ("list", "int")),
    "greatest": (lambda: combiners.Top.LargestPerKey(2, key=_last_digit), ("list", "int")),
    "quantiles": (lambda: ApproximateQuantiles.PerKey(3), ("list", "int")),
    "unique": (lambda: ApproximateUnique.PerKey(size=1000), "int"),
    "count": (combiners.Count.PerKey, "int"),
    "sample": (lambda: combiners.Sample.FixedSizePerKey(1000), ("bag", "int")),
}


def random_whole(rng: random.Random) -> dict[str, Any]:
    which = rng.choice([*_WHOLE, "latest", "quantiles", "unique", "to dict", "any", "per element"])
    return {"which": which, "defaults": rng.random() < 0.5}


def whole(one: Collection, *, which: str, defaults: bool) -> Collection:
    """Summarises each window."""
    numbers = digits(one, 50)
    if which in _WHOLE:
        made, kind = _WHOLE[which]
        transform = made()
        if not defaults or numbers.windows.fn != GLOBAL:
            transform = transform.without_defaults()
        return numbers.apply("Whole", transform, kind)
    match which:
        case "latest":
            # The latest of simultaneous elements is nondeterministic, so the output has only the
            # timestamp.
            times = numbers.map("Times", _second, "int")
            return times.apply("Latest", combiners.Latest.Globally().without_defaults(), "int")
        case "quantiles" if numbers.windows.fn == GLOBAL:
            return numbers.apply("Quantiles", ApproximateQuantiles.Globally(4), ("list", "int"))
        case "unique" if numbers.windows.fn == GLOBAL:
            return numbers.apply("Unique", ApproximateUnique.Globally(size=1000), "int")
        case "any":
            return numbers.apply("Any", combiners.Sample.Any(1000), "int")
        case "per element":
            return numbers.apply("Count", combiners.Count.PerElement(), ("tuple", "int", "int"))
    unique = numbers.apply("Distinct", beam.Distinct(), "int")
    pairs = unique.map("Pairs", _twice, ("tuple", "int", "int"))
    to_dict = combiners.ToDict().without_defaults()
    return pairs.apply("ToDict", to_dict, ("dict", "int", "int"))


def random_each(rng: random.Random) -> dict[str, Any]:
    return {"which": rng.choice([*_PER_KEY, "latest", "per field"])}


def each(one: Collection, *, which: str) -> Collection:
    """Summarises each key's."""
    pairs = keyed(one)
    key = pairs.kind[1]
    if which == "latest":
        times = pairs.map("Times", _second_of_pair, ("tuple", key, "int"))
        return times.apply("Latest", combiners.Latest.PerKey(), ("tuple", key, "int"))
    numbers = numbers_by_key(pairs)
    if which == "per field":
        fields = ("tuple", key, ("tuple", "int", "int"))
        several = numbers.map("Fields", _fields, fields)
        combine = combiners.TupleCombineFn(sum, max)
        return several.apply("PerField", beam.CombinePerKey(combine), fields)
    made, kind = _PER_KEY[which]
    return numbers.apply("Each", made(), ("tuple", key, kind))


class Offset(beam.CombineFn):
    """CombineFn of the sum of all elements and its side input; its compact accumulator is packed."""

    def create_accumulator(self, *unused: Any) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int, *unused: Any) -> list[int]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[int]], *unused: Any) -> list[int]:
        return [number for one in accumulators for number in one]

    def compact(self, accumulator: list[int], *unused: Any) -> list[int]:
        return [sum(accumulator)]

    def extract_output(self, accumulator: list[int], *sides: Any) -> str:
        return f"{sum(accumulator)} {[sorted(side) for side in sides]}"


def random_combine_beside(rng: random.Random) -> dict[str, Any]:
    return {"per_key": rng.random() < 0.6}


def combine_beside(one: Collection, other: Collection, *, per_key: bool) -> Collection:
    """Combines with a function that reads another collection."""
    side = digits(global_if_merging(other.named(f"{one.label}/side")), 5)
    view = pvalue.AsIter(side.pc)
    if per_key:
        pairs = keyed(one)
        key = pairs.kind[1]
        numbers = numbers_by_key(pairs)
        combine = beam.CombinePerKey(Offset(), view)
        return numbers.apply("Combine", combine, ("tuple", key, "str"))
    numbers = digits(one, 50)
    combine = beam.CombineGlobally(Offset(), view).without_defaults()
    return numbers.apply("Combine", combine, "str")


def _last_digit(number: int) -> tuple[int, int]:
    return number % 10, number


def _second(_: int, time: Any = beam.DoFn.TimestampParam) -> int:
    second: int = time.micros // 1_000_000
    return second


def _second_of_pair(pair: Any, time: Any = beam.DoFn.TimestampParam) -> tuple[Any, int]:
    return pair[0], time.micros // 1_000_000


def _twice(number: int) -> tuple[int, int]:
    return number, 2 * number


def _fields(pair: tuple[Any, int]) -> tuple[Any, tuple[int, int]]:
    return pair[0], (pair[1], pair[1] % 7)
