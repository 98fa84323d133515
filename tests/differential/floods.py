"""Steps that make much of little: groups of many pages, elements of many kilobytes, side inputs of both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.coders import FastPrimitivesCoder, IterableCoder, PickleCoder
from apache_beam.transforms.userstate import BagStateSpec
from side_inputs import global_if_merging
from typed import Collection, keyed, not_merging, numbers_by_key
from values import Kind, digest

_WAYS = (
    *("group", "twice", "first", "together", "nested", "thrice", "flattened", "kept"),
    *("side", "groups beside", "combine"),
)
_MOST = 6
"""Maximum number of multiplied elements of a window, because earlier steps can multiply, too."""


def random_flood(rng: random.Random) -> dict[str, Any]:
    return {
        "copies": rng.choice([300, 2000]),
        "length": rng.choice([0, 30, 300]),
        "way": rng.choice([*_WAYS]),
    }


def flood(one: Collection, *, copies: int, length: int, way: str) -> Collection:
    """Multiplies few elements to many, makes groups or side inputs of them, and sums these."""
    pairs = keyed(one, plain=True)
    few = numbers_by_key(pairs)
    few = few.apply("Few", beam.CombinePerKey(_Least()), ("tuple", "int", ("list", "int")))
    kind: Kind = ("tuple", "int", ("tuple", "int", "str"))
    many = few.apply(
        "Many",
        beam.FlatMap(_many, copies, length).with_output_types(tuple[int, tuple[int, str]]),
        kind,
    )
    told: Kind = ("tuple", "int", "str")
    if way == "side":
        side = global_if_merging(many)
        return few.map("Beside", _beside, "str", pvalue.AsMultiMap(side.pc), pvalue.AsIter(side.pc))
    if way == "combine":
        combined = many.map("Lengths", _lengths, ("tuple", "int", "int"))
        return combined.apply("Sum", beam.CombinePerKey(sum), ("tuple", "int", "int"))
    if way == "together":
        label = one.label
        again = few.map("Again", _first_of, ("tuple", "int", "int"))
        both = {"many": many.pc, "few": again.pc} | f"{label}/CoGroup" >> beam.CoGroupByKey()
        return attrs.evolve(many, pc=both, kind="mixed").map("Sums", _sums_of_both, told)
    groups = many.apply("Group", beam.GroupByKey(), ("tuple", "int", ("bag", "mixed")))
    match way:
        case "nested" | "thrice":
            for level in range(1 if way == "nested" else 2):
                whole = groups.map(f"Whole{level}", _whole, "mixed")
                groups = whole.apply(f"Again{level}", beam.GroupByKey(), "mixed")
            return groups.map("Sums", _sums_of_groups, told)
        case "flattened":
            others = many.map("Rest", _of_first_copies, kind)
            others = others.apply("GroupRest", beam.GroupByKey(), "mixed")
            both = (groups.pc, others.pc) | f"{one.label}/Both" >> beam.Flatten()
            dealt = attrs.evolve(groups, pc=both).apply("Deal", beam.Reshuffle(), "mixed")
            whole = dealt.map("Whole", _whole, "mixed").apply("Again", beam.GroupByKey(), "mixed")
            return whole.map("Sums", _sums_of_groups, told)
        case "kept":
            kept = not_merging(groups).apply("KeepGroups", beam.ParDo(KeepGroups()), "str")
            return attrs.evolve(kept, rings=True)
        case "groups beside":
            side = global_if_merging(groups).pc
            views = pvalue.AsMultiMap(side), pvalue.AsIter(side)
            return few.map("Beside", _groups_beside, "str", *views)
    return groups.map("Sums", {"group": _sums, "twice": _twice, "first": _first}[way], told)


def random_heavy(rng: random.Random) -> dict[str, Any]:
    return {"kilobytes": rng.choice([10, 100, 1200]), "state": rng.random() < 0.5}


def heavy(one: Collection, *, kilobytes: int, state: bool) -> Collection:
    """Elements of many kilobytes go through a shuffle or a group."""
    numbers = one.map("Numbers", _digit, "int", one.kind)
    least = numbers.apply("Few", beam.CombineGlobally(_Least()).without_defaults(), ("list", "int"))
    texts = least.apply(
        "Heavy", beam.FlatMap(_heavy, kilobytes).with_output_types(tuple[int, bytes]), "mixed"
    )
    if state:
        groups = texts.apply("Group", beam.GroupByKey(), "mixed")
        return groups.map("Sums", _weights, ("tuple", "int", "str"))
    return texts.apply("Reshuffle", beam.Reshuffle(), "mixed").map(
        "Weight", _weight, ("tuple", "int", "str")
    )


class KeepGroups(beam.DoFn):
    """DoFn that stores groups in state, in two ways, and emits the stored groups."""

    ITERABLES = BagStateSpec("iterables", IterableCoder(FastPrimitivesCoder()))
    PICKLED = BagStateSpec("pickled", PickleCoder())

    def process(
        self,
        pair: Any,
        iterables: Any = beam.DoFn.StateParam(ITERABLES),
        pickled: Any = beam.DoFn.StateParam(PICKLED),
    ) -> Iterator[str]:
        iterables.add(pair[1])
        pickled.add(list(pair[1]))
        yield f"{pair[0]} {_deep(iterables.read())} {_deep(pickled.read())}"


class _Least(beam.CombineFn):
    """The least few, each once."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return sorted({*accumulator, element})[:_MOST]

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        return sorted({number for one in accumulators for number in one})[:_MOST]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return accumulator


def _digit(element: Any, kind: Kind) -> int:
    return digest(kind, element) % 20


def _many(pair: Any, copies: int, length: int) -> Iterator[tuple[int, tuple[int, str]]]:
    key, numbers = pair
    for number in numbers:
        for copy in range(copies):
            yield key, (1000 * number + copy, "x" * (length * (copy % 3)))


def _first_of(pair: Any) -> tuple[int, int]:
    return pair[0], pair[1][0]


def _lengths(pair: Any) -> tuple[int, int]:
    return pair[0], pair[1][0] + len(pair[1][1])


def _told(values: Any) -> str:
    count = total = 0
    for number, text in values:
        count, total = count + 1, total + number * (len(text) + 1)
    return f"{count} {total}"


def _sums(pair: Any) -> tuple[int, str]:
    return pair[0], _told(pair[1])


def _twice(pair: Any) -> tuple[int, str]:
    key, values = pair
    halfway = iter(values)
    next(halfway)
    left = sum(1 for _ in halfway)
    return key, f"{_told(values)} {left} {_told(values)}"


def _first(pair: Any) -> tuple[int, str]:
    key, values = pair
    for number, text in values:
        return key, f"{number >= 0} {len(text) >= 0}"
    return key, "nothing"


def _whole(pair: Any) -> tuple[int, Any]:
    return pair[0] % 2, pair[1]


def _sums_of_groups(pair: Any) -> tuple[int, str]:
    return pair[0], str(_deep(pair[1]))


def _deep(values: Any) -> Any:
    """Returns the text of groups within groups."""
    items = list(values)
    return _told(items) if type(items[0]) is tuple else sorted(map(_deep, items), key=str)


def _of_first_copies(pair: Any) -> Any:
    key, (number, text) = pair
    return key, (number % 1000, text)


def _groups_beside(pair: Any, by_key: Any, everything: Any) -> str:
    every = sorted(f"{key} {_deep([values])}" for key, values in everything)
    return f"{_deep(by_key[pair[0]])} {every}"


def _sums_of_both(pair: Any) -> tuple[int, str]:
    key, groups = pair
    return key, f"{_told(groups['many'])} {sorted(groups['few'])}"


def _beside(pair: Any, by_key: Any, everything: Any) -> str:
    key, _ = pair
    return f"{_told(by_key[key])} {_told(value for _, value in everything)}"


def _heavy(numbers: list[int], kilobytes: int) -> Iterator[tuple[int, bytes]]:
    for number in numbers:
        yield number % 2, bytes([number]) * (1000 * kilobytes)


def _weight(pair: Any) -> tuple[int, str]:
    return pair[0], f"{len(pair[1])} {pair[1][-1]}"


def _weights(pair: Any) -> tuple[int, str]:
    return pair[0], str(sorted(_weight((0, value)) for value in pair[1]))
