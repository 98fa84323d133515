"""Steps that bring elements together: groupings of all kinds, Flatten, and new windows."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms.util import ReshufflePerKey
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from typed import Collection, alike, behind_shuffle, is_key, keyed, not_merging, rewindowed
from values import hint
from windows import Windows, random_windows


def into_windows(one: Collection, **windows: Any) -> Collection:
    """Assigns other windows."""
    return rewindowed(one, Windows(**windows))


random_into_windows = random_windows


def random_group(rng: random.Random) -> dict[str, Any]:
    return {"keys": rng.choice([1, 3])}


def group(one: Collection, *, keys: int) -> Collection:
    """Groups by key; the values of a group are a bag."""
    pairs = keyed(one, keys)
    _, key, value = pairs.kind
    return pairs.apply("Group", beam.GroupByKey(), ("tuple", key, ("bag", value)))


def random_together(rng: random.Random) -> dict[str, Any]:
    return {"named": rng.random() < 0.5}


def together(*several: Collection, named: bool) -> Collection:
    """Groups several collections by key, by CoGroupByKey."""
    label = several[0].label
    inputs = [keyed(each, plain=True) for each in rewindowed_as_first(several)]
    bags = [("bag", each.kind[2]) for each in inputs]
    if named:
        tags = {f"in{n}": each.pc for n, each in enumerate(inputs)}
        grouped = tags | f"{label}/CoGroup" >> beam.CoGroupByKey()
        grouped = grouped | f"{label}/InOrder" >> beam.MapTuple(_in_order)
    else:
        grouped = tuple(each.pc for each in inputs) | f"{label}/CoGroup" >> beam.CoGroupByKey()
        grouped = grouped | f"{label}/AsTuple" >> beam.MapTuple(_as_tuple)
    kind = ("tuple", "int", ("tuple", *bags))
    return attrs.evolve(inputs[0], pc=grouped, kind=kind)


def rewindowed_as_first(several: tuple[Collection, ...]) -> list[Collection]:
    """Rewindows all inputs into the windows of the first input, with a separate name for each."""
    return [
        rewindowed(each.named(f"{several[0].label}/in{n}"), several[0].windows)
        for n, each in enumerate(several)
    ]


def random_flatten(rng: random.Random) -> dict[str, Any]:
    return {}


def flatten(*several: Collection) -> Collection:
    """Flattens several collections, which can contain the same collection twice."""
    inputs = alike(list(several))
    label = several[0].label
    pc = tuple(each.pc for each in inputs) | f"{label}/Flatten" >> beam.Flatten()
    return attrs.evolve(inputs[0], pc=pc, label=label, rings=any(each.rings for each in inputs))


def random_reshuffle(rng: random.Random) -> dict[str, Any]:
    return {"by_key": rng.random() < 0.5}


def reshuffle(one: Collection, *, by_key: bool) -> Collection:
    """Redistributes the elements."""
    if by_key:
        pairs = keyed(one)
        return pairs.apply("Reshuffle", ReshufflePerKey(), pairs.kind)
    return one.apply("Reshuffle", beam.Reshuffle(), one.kind)


def random_batches(rng: random.Random) -> dict[str, Any]:
    return {"size": rng.choice([1, 2, 5]), "sharded": rng.random() < 0.2}


def batches(one: Collection, *, size: int, sharded: bool) -> Collection:
    """Returns the batch sizes of each key, or all elements if the number of batches is nondeterministic."""
    # A key that differs only by its encoding has no shards.
    pairs = keyed(not_merging(behind_shuffle(one)), plain=sharded)
    _, key, value = pairs.kind
    pairs = attrs.evolve(pairs, rings=True)
    if sharded:
        made = pairs.apply("Batches", beam.GroupIntoBatches.WithShardedKey(size), "mixed")
        single = beam.FlatMapTuple(_elements).with_output_types(hint(value))
        return made.apply("Elements", single, value)
    made = pairs.apply("Batches", beam.GroupIntoBatches(size), "mixed")
    sizes = beam.MapTuple(_sizes).with_output_types(hint(("tuple", key, "int")))
    return made.apply("Sizes", sizes, ("tuple", key, "int"))


def random_distinct(rng: random.Random) -> dict[str, Any]:
    return {}


def distinct(one: Collection) -> Collection:
    """Emits each element once."""
    keys = one if is_key(one.kind) else one.map("Texts", repr_of, "str", one.kind)
    return keys.apply("Distinct", beam.Distinct(), keys.kind)


def repr_of(element: Any, kind: Any) -> str:
    from values import render

    return render(kind, element)[:60]


def _in_order(key: Any, groups: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    return key, tuple(groups[name] for name in sorted(groups))


def _as_tuple(key: Any, groups: Any) -> tuple[Any, tuple[Any, ...]]:
    return key, tuple(groups)


def _elements(
    _: Any, batch: list[Any], window: Any = beam.DoFn.WindowParam
) -> list[TimestampedValue]:
    return [_at_its_end(window, element) for element in batch]


def _sizes(key: Any, batch: list[Any], window: Any = beam.DoFn.WindowParam) -> TimestampedValue:
    return _at_its_end(window, (key, len(batch)))


def _at_its_end(window: Any, element: Any) -> TimestampedValue:
    """Restamps batches: a full batch has the timestamp of its last element, which is nondeterministic."""
    return TimestampedValue(element, Timestamp(micros=window.max_timestamp().micros // 1000 * 1000))
