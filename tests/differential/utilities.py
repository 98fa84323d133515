"""Steps made of the small transforms that Beam's users reach for: keys, texts, windows as values, duplicates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms import util
from apache_beam.transforms.deduplicate import Deduplicate, DeduplicatePerKey
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from rules import told
from typed import (
    Collection,
    alike,
    digits,
    keyed,
    not_merging,
    only_here,
    only_on_oracle,
    texts,
)
from values import Kind, digest, hint, render

_LONG = 1_000_000


def random_named(rng: random.Random) -> dict[str, Any]:
    ways = ["constant", "function", "beside", "kvs", "iterables", "tee", "buckets", "parts"]
    return {"way": rng.choice(ways)}


def named(one: Collection, *, way: str) -> Collection:
    """Keys, texts, and the same elements again."""
    match way:
        case "constant":
            return one.apply("WithKeys", beam.WithKeys("k"), ("tuple", "str", one.kind))
        case "function":
            made = beam.WithKeys(_small, one.kind).with_output_types(
                hint(("tuple", "int", one.kind))
            )
            return one.apply("WithKeys", made, ("tuple", "int", one.kind))
        case "kvs":
            pairs = keyed(digits(one, 9), plain=True)
            return pairs.apply("Kvs", beam.ToString.Kvs(), "str")
        case "iterables":
            lists = digits(one, 9).map("Lists", _few, ("list", "int"))
            return lists.apply("Iterables", beam.ToString.Iterables(), "str")
        case "tee":
            return one.apply("Tee", util.Tee(beam.Map(_nothing), _count), one.kind)
        case "buckets":
            return one.apply("Reshuffle", beam.Reshuffle(num_buckets=2), one.kind)
        case "parts":
            parts = one.pc | f"{one.label}/Partition" >> beam.Partition(_part, 3, one.kind)
            both = (parts[2], parts[0]) | f"{one.label}/Both" >> beam.Flatten()
            return attrs.evolve(one, pc=both)
    numbers = digits(one, 9)
    least = numbers.pc | f"{one.label}/Least" >> beam.CombineGlobally(min).without_defaults()
    text = texts(one)
    return attrs.evolve(
        text,
        pc=(text.pc, least | f"{one.label}/Text" >> beam.ToString.Element())
        | f"{one.label}/Both" >> beam.Flatten(),
    )


def random_reified(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["window", "time in value", "window in value"])}


def reified(one: Collection, *, way: str) -> Collection:
    """Times and windows as parts of elements, through a shuffle, and as texts."""
    pairs = keyed(one)
    # The hints of these transforms say that elements stay of their type, which they don't.
    untyped = beam.Map(_same).with_output_types(Any if way == "window" else tuple[Any, Any])
    transform: Any = {
        "window": util.Reify.Window,
        "time in value": util.Reify.TimestampInValue,
        "window in value": util.Reify.WindowInValue,
    }[way]()
    made = pairs.apply("Untyped", untyped, "mixed").apply("Reify", transform, "mixed")
    made = made.apply("Reshuffle", beam.Reshuffle(), "mixed")
    return made.map("Tell", _tell_reified, "str", way, pairs.kind)


def random_pattern(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["matches", "pairs", "find", "replace", "split", "all"])}


def pattern(one: Collection, *, way: str) -> Collection:
    """Applies regular expressions to texts."""
    text = texts(one)
    match way:
        case "matches":
            return text.apply("Matches", util.Regex.matches(r"(int|str) (.*)", 2), "str")
        case "pairs":
            pairs = util.Regex.find_kv(r"(\w+) (\w+)", 1, 2)
            return text.apply("Pairs", pairs, ("tuple", "str", "str"))
        case "find":
            return text.apply("Find", util.Regex.find(r"\d+"), "str")
        case "replace":
            return text.apply("Replace", util.Regex.replace_all(r"\d", "#"), "str")
        case "split":
            return text.apply("Split", util.Regex.split(r"\W+"), ("list", "str"))
    found = util.Regex.find_all(r"\d+", 0, outputEmpty=False)
    return text.apply("All", found, ("list", "str"))


def random_once(rng: random.Random) -> dict[str, Any]:
    return {"time": rng.choice(["event", "clock"]), "keys": rng.random() < 0.5}


def once(one: Collection, *, time: str, keys: bool) -> Collection:
    """Emits each element once in its window, within its retention time."""
    numbers = digits(not_merging(one), 5)
    durations = {
        "event": {"event_time_duration": _LONG},
        "clock": {"processing_time_duration": _LONG},
    }[time]
    here = only_here(numbers)
    if keys:
        pairs = here.map("Key", _halved, ("tuple", "int", "int"))
        first = pairs.apply("Once", DeduplicatePerKey(**durations), pairs.kind)
        # The first of a key's values is nondeterministic.
        first = first.apply("Keys", beam.Keys(), "int")
    else:
        first = here.apply("Once", Deduplicate(**durations), "int")
    # The oracle fails if timers don't fire.
    past = only_on_oracle(numbers)
    if keys:
        past = past.map("Halve", _halved, ("tuple", "int", "int"))
        past = past.apply("PastKeys", beam.Keys(), "int")
    past = past.apply("Distinct", beam.Distinct(), "int")
    return _together(first, past)


def _together(here: Collection, past: Collection) -> Collection:
    """Flattens both collections, at the ends of their windows, because the order of arrival, and so
    the timestamp, is nondeterministic.
    """
    pc = (here.pc, past.pc) | f"{here.label}/Both" >> beam.Flatten()
    return attrs.evolve(attrs.evolve(here, pc=pc).map("AtEnd", _at_end, "int"), rings=True)


def random_batched(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["sorted", "sized", "stateful", "buffered", "sharded"])}


def batched(one: Collection, *, way: str) -> Collection:
    """Makes batches of all kinds, whose elements are compared; the size of a batch is nondeterministic."""
    if way in ("sorted", "sized"):
        batches: Any = util.BatchElements(min_batch_size=2, max_batch_size=3)
        if way == "sorted":
            batches = util.SortAndBatchElements(1, 3, 1000, element_size_fn=_own_size)
        made = digits(one, 100).apply("Batches", batches, ("list", "int"))
        return made.apply("Singly", beam.FlatMap(_same).with_output_types(int), "int")
    numbers = digits(not_merging(one), 100)
    here = only_here(numbers)
    if way == "stateful":
        batches = util.BatchElements(2, 3, max_batch_duration_secs=_LONG)
        made = here.apply("Batches", batches, ("list", "int"))
    else:
        grouped: Any = {
            "buffered": lambda: beam.GroupIntoBatches(3, _LONG),
            "sharded": lambda: beam.GroupIntoBatches.WithShardedKey(3, _LONG),
        }[way]()
        pairs = keyed(here, plain=True)
        made = pairs.apply("Batches", grouped, "mixed").apply("Values", beam.Values(), "mixed")
    singly = made.apply("Singly", beam.FlatMap(_same).with_output_types(int), "int")
    return _together(singly, only_on_oracle(numbers))


def random_flatten_with(rng: random.Random) -> dict[str, Any]:
    return {}


def flatten_with(one: Collection, other: Collection) -> Collection:
    """Flattens both collections by the transform `FlattenWith`."""
    first, second = alike([one, other])
    pc = first.pc | f"{one.label}/FlattenWith" >> beam.FlattenWith(second.pc)
    return attrs.evolve(first, pc=pc, label=one.label, rings=first.rings or second.rings)


class Dealer(beam.DoFn):
    """DoFn that sends elements to outputs by name, a part of them at the end of the bundle, and texts
    to a typed output.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def start_bundle(self) -> None:
        self._held: list[Any] = []

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        number = digest(self._kind, element)
        match number % 4:
            case 0:
                yield element
            case 1:
                yield beam.pvalue.TaggedOutput("text", str(number))
            case 2:
                yield beam.pvalue.TaggedOutput("text", TimestampedValue(f"then {number}", time))
            case 3:
                self._held.append((str(-number), time, window))

    def finish_bundle(self) -> Iterator[Any]:
        from apache_beam.utils.windowed_value import WindowedValue

        for text, time, window in self._held:
            yield beam.pvalue.TaggedOutput("text", WindowedValue(text, time, [window]))


def random_dealt(rng: random.Random) -> dict[str, Any]:
    return {"take": rng.choice(["main", "text", "both"]), "named": rng.random() < 0.5}


def dealt(one: Collection, *, take: str, named: bool) -> Collection:
    """Returns one of several outputs with separate types, or the texts of all outputs."""
    made = beam.ParDo(Dealer(one.kind)).with_output_types(hint(one.kind), text=str)
    outputs: Any = made.with_outputs("text", main="main") if named else made.with_outputs()
    both = one.pc | f"{one.label}/Deal" >> outputs
    text = attrs.evolve(one, pc=both.text, kind="str")
    main = attrs.evolve(one, pc=both["main" if named else None])
    if take == "both":
        flat = (text.pc, texts(main).pc) | f"{one.label}/Both" >> beam.Flatten()
        return attrs.evolve(text, pc=flat)
    return text if take == "text" else main


def _small(element: Any, kind: Kind) -> int:
    return digest(kind, element) % 4


def _few(number: int) -> list[int]:
    return list(range(number % 4))


def _nothing(_: Any) -> None:
    return None


def _count(pc: Any) -> Any:
    return pc | beam.combiners.Count.Globally().without_defaults()


def _part(element: Any, parts: int, kind: Kind) -> int:
    return digest(kind, element) % parts


def _same(batch: Any) -> Any:
    return batch


def _own_size(number: int) -> int:
    return number % 3


def _halved(number: int) -> tuple[int, int]:
    return number // 2, number


def _at_end(number: int, window: Any = beam.DoFn.WindowParam) -> TimestampedValue:
    return TimestampedValue(number, _end_of(window))


def _end_of(window: Any) -> Timestamp:
    return Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)


def _tell_reified(made: Any, way: str, kind: Kind) -> str:
    match way:
        case "window":
            element, time, window = made
            return f"{render(kind, element)} {told(f'{time.micros} {window}')}"
        case "time in value":
            key, value = made
            return f"{render(kind[1], key)} {told(f'{value.timestamp.micros}')} {render(kind[2], value.value)}"
    key, (value, time, window) = made
    return f"{render(kind, (key, value))} {told(f'{time.micros} {window}')}"
