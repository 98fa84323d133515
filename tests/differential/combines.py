"""Steps that combine: per key and globally, lifted or not, with fanout, packed, with defaults."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import IterableCoder, VarIntCoder
from apache_beam.coders.coders import Coder
from apache_beam.transforms import combiners
from typed import Collection, digits, keyed, numbers_by_key, rewindowed
from values import Kind
from windows import GLOBAL, Windows


class Statistics(beam.CombineFn):
    """Least, greatest and number, with an accumulator that only pickle can encode."""

    def setup(self) -> None:
        self._is_set_up = True

    def create_accumulator(self) -> dict[str, int]:
        assert self._is_set_up
        return {}

    def add_input(self, accumulator: dict[str, int], element: int) -> dict[str, int]:
        return self.merge_accumulators([accumulator, {"n": 1, "lo": element, "hi": element}])

    def merge_accumulators(self, accumulators: Iterable[dict[str, int]]) -> dict[str, int]:
        full = [each for each in accumulators if each]
        if not full:
            return {}
        return {
            "n": sum(each["n"] for each in full),
            "lo": min(each["lo"] for each in full),
            "hi": max(each["hi"] for each in full),
        }

    def extract_output(self, accumulator: dict[str, int]) -> dict[str, int]:
        return accumulator

    def teardown(self) -> None:
        self._is_set_up = False


class Ordered(beam.CombineFn):
    """All values in order, as a list; accumulators are iterables of the model."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [each for one in accumulators for each in one]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return sorted(accumulator)

    def get_accumulator_coder(self) -> Coder:
        return IterableCoder(VarIntCoder())


_FNS: dict[str, tuple[Any, Kind]] = {
    "sum": (lambda: sum, "int"),
    "max": (lambda: _max_or_none, ("optional", "int")),
    "count": (combiners.CountCombineFn, "int"),
    "mean": (combiners.MeanCombineFn, "float"),
    "statistics": (Statistics, ("dict", "str", "int")),
    "ordered": (Ordered, ("list", "int")),
    "list": (combiners.ToListCombineFn, ("bag", "int")),
    "set": (combiners.ToSetCombineFn, ("bag", "int")),
    "top": (lambda: combiners.TopCombineFn(2), ("list", "int")),
    "tuple": (
        lambda: combiners.SingleInputTupleCombineFn(sum, combiners.CountCombineFn()),
        ("tuple", "int", "int"),
    ),
}


def _max_or_none(values: Iterable[int]) -> int | None:
    return max((each for each in values if each is not None), default=None)


def random_per_key(rng: random.Random) -> dict[str, Any]:
    return {
        "fn": rng.choice([*_FNS]),
        "way": rng.choice(["plain", "plain", "fanout", "values", "packed"]),
    }


def per_key(one: Collection, *, fn: str, way: str) -> Collection:
    """Combines the numbers of each key."""
    pairs = numbers_by_key(keyed(one))
    made, kind = _FNS[fn]
    key = pairs.kind[1]
    if way == "values":
        grouped = pairs.apply("Group", beam.GroupByKey(), pairs.kind)
        return grouped.apply("CombineValues", beam.CombineValues(made()), ("tuple", key, kind))
    if way == "packed":
        several = [
            pairs.apply("Combine", beam.CombinePerKey(made()), ("tuple", key, kind)),
            pairs.apply("Count", combiners.Count.PerKey(), ("tuple", key, "int")),
        ]
        both = tuple(each.pc for each in several) | f"{one.label}/Packed" >> beam.CoGroupByKey()
        packed = ("tuple", key, ("tuple", ("bag", kind), ("bag", "int")))
        return attrs.evolve(pairs, pc=both, kind=packed).apply(
            "AsTuple", beam.MapTuple(_as_tuple), packed
        )
    transform = beam.CombinePerKey(made())
    if way == "fanout":
        transform = transform.with_hot_key_fanout(2)
    return pairs.apply("Combine", transform, ("tuple", key, kind))


def random_globally(rng: random.Random) -> dict[str, Any]:
    return {
        "fn": rng.choice([*_FNS]),
        "fanout": rng.random() < 0.3,
        "defaults": rng.random() < 0.5,
    }


def globally(one: Collection, *, fn: str, fanout: bool, defaults: bool) -> Collection:
    """Combines all numbers of a window; in the global window, also without elements."""
    numbers = digits(one, 50)
    made, kind = _FNS[fn]
    transform = beam.CombineGlobally(made())
    if fanout:
        transform = transform.with_fanout(2)
    if not defaults:
        transform = transform.without_defaults()
    elif numbers.windows.fn != GLOBAL:
        numbers = rewindowed(numbers, Windows(), "Global")
    return numbers.apply("Combine", transform, kind)


def _as_tuple(key: Any, groups: Any) -> tuple[Any, tuple[Any, ...]]:
    return key, tuple(groups)
