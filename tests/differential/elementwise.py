"""Steps that process elements one by one, with all parameters of a DoFn."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
import numpy
from apache_beam.transforms.window import IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from elements import Colour, Parcel, Plain, Point
from google.protobuf import timestamp_pb2
from rules import told
from sources import Ranges, claimed
from typed import Collection, digits, is_key, keyed, texts
from values import Kind, digest, hint, made_order, render

_MADE: dict[str, Kind] = {
    "text": "str",
    "number": "int",
    "half": "float",
    "bytes": "bytes",
    "mixed": "mixed",
    "decimal": "decimal",
    "date": "date",
    "point": "point",
    "order": "order",
    "numpy": "numpy",
    "set": "set",
    "plain": "plain",
    "parcel": "parcel",
    "row": "row",
    "colour": "colour",
    "big": "big",
    "span": "span",
    "message": "message",
    "named": ("dict", "str", "int"),
}


def random_map(rng: random.Random) -> dict[str, Any]:
    return {
        "make": rng.choice([*_MADE, "pair", "list", "optional", "nested"]),
        "hinted": rng.random() < 0.6,
    }


def map_to(one: Collection, *, make: str, hinted: bool) -> Collection:
    """Makes elements of another kind, with or without a type hint."""
    kinds: dict[str, Kind] = {
        "pair": ("tuple", "int", one.kind),
        "list": ("list", one.kind),
        "optional": ("optional", one.kind),
        "nested": ("tuple", ("list", "int"), ("tuple", one.kind, "str")),
    }
    kind = kinds.get(make) or _MADE[make]
    mapped = beam.Map(_made, make, one.kind)
    if hinted:
        mapped = mapped.with_output_types(hint(kind))
    return one.apply("Map", mapped, kind)


def random_filter(rng: random.Random) -> dict[str, Any]:
    return {"modulus": rng.choice([1, 2, 2, 3])}


def keep(one: Collection, *, modulus: int) -> Collection:
    """Drops some elements, or all."""
    return one.apply("Filter", beam.Filter(_is_kept, one.kind, modulus), one.kind)


def random_repeat(rng: random.Random) -> dict[str, Any]:
    return {"most": rng.choice([2, 3])}


def repeat(one: Collection, *, most: int) -> Collection:
    """Emits each element several times, or never."""
    repeated = beam.FlatMap(_repeated, one.kind, most).with_output_types(hint(one.kind))
    return one.apply("FlatMap", repeated, one.kind)


def random_stamp(rng: random.Random) -> dict[str, Any]:
    return {"most": rng.choice([1, 10, 30])}


def stamp(one: Collection, *, most: int) -> Collection:
    """Adds to timestamps; elements without a timestamp get a timestamp."""
    stamped = beam.ParDo(Stamp(one.kind, most)).with_output_types(hint(one.kind))
    return one.apply("Stamp", stamped, one.kind)


def random_look(rng: random.Random) -> dict[str, Any]:
    return {"keyed": rng.random() < 0.3}


def look(one: Collection, *, keyed: bool) -> Collection:
    """Emits texts with the parameters that a DoFn gets for each element."""
    if keyed:
        return _look_at_keys(one)
    return one.apply("Look", beam.ParDo(Look(one.kind)).with_output_types(str), "str")


def _look_at_keys(one: Collection) -> Collection:
    pairs = keyed(one)
    looked = beam.ParDo(LookAtKey(pairs.kind)).with_output_types(str)
    return pairs.apply("LookAtKey", looked, "str")


def random_live(rng: random.Random) -> dict[str, Any]:
    return {}


def live(one: Collection) -> Collection:
    """Buffers elements, and emits them when the bundle ends."""
    lived = beam.ParDo(Live()).with_output_types(hint(one.kind))
    return one.apply("Live", lived, one.kind)


def random_batch(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["batches", "to elements", "to batches"])}


def batch(one: Collection, *, way: str) -> Collection:
    """Applies a DoFn that takes or returns batches of numbers."""
    numbers = digits(one, 100)
    do_fn = {"batches": Batches, "to elements": BatchesToElements, "to batches": ElementsToBatches}
    out = numbers.apply("First", beam.ParDo(do_fn[way]()).with_output_types(int), "int")
    # The next step may take elements in any batches.
    return out.apply("Second", beam.ParDo(Batches()), "int")


def random_expand(rng: random.Random) -> dict[str, Any]:
    return {"pause": rng.choice([0, 2])}


def expand(one: Collection, *, pause: int) -> Collection:
    """Numbers that a splittable DoFn makes of each element."""
    counts = digits(one, 5)
    return counts.apply("Expand", beam.ParDo(Expand(pause)).with_output_types(int), "int")


def random_ready(rng: random.Random) -> dict[str, Any]:
    return {"which": rng.choice(["keys", "values", "swap", "text", "partition", "enumerate"])}


def ready(one: Collection, *, which: str) -> Collection:
    """Transforms that Beam brings along."""
    if which == "text":
        return texts(one).apply("ToString", beam.ToString.Element(), "str")
    if which == "partition":
        parts = one.pc | f"{one.label}/Partition" >> beam.Partition(_part, 2, one.kind)
        return attrs.evolve(one, pc=parts[1])
    pairs = keyed(one)
    _, key, value = pairs.kind
    if which == "keys":
        return pairs.apply("Keys", beam.Keys(), key)
    if which == "values":
        return pairs.apply("Values", beam.Values(), value)
    return pairs.apply("Swap", beam.KvSwap(), ("tuple", value, key)) if is_key(value) else pairs


def _made(element: Any, make: str, kind: Kind) -> Any:
    number = digest(kind, element)
    small, text = number % 5, str(number % 7)
    whole = {"pair": (number % 4, element), "list": [element] * (number % 3)}
    match make:
        case "pair" | "list":
            return whole[make]
        case "optional":
            return element if number % 2 else None
        case "nested":
            return [small, number], (element, text)
        case "text":
            return render(kind, element)[:80] + text
        case "named":
            return {text: number, "": small}
        case "mixed":
            return (small, float(small), text, None, [text, small], b"")[number % 6]
        case "date":
            return datetime.date(2020, 1, 1 + small)
    makers = {
        "number": int,
        "half": lambda n: n / 2,
        "bytes": lambda n: b"%d" % n,
        "decimal": decimal.Decimal,
        "point": lambda n: Point(n, None if n % 2 else text),
        "order": lambda n: made_order(n, text),
        "numpy": numpy.int64,
        "set": lambda n: set(range(n)),
        "plain": lambda n: Plain(n, text),
        "parcel": lambda n: Parcel(text.encode()),
        "row": lambda n: beam.Row(x=n, label=text),
        "colour": lambda n: [*Colour][n % 2],
        "big": lambda n: 10 ** (10 * n),
        "span": lambda n: IntervalWindow(n, n + 5),
        "message": lambda n: timestamp_pb2.Timestamp(seconds=n),
    }
    return makers[make](small)


def _is_kept(element: Any, kind: Kind, modulus: int) -> bool:
    return digest(kind, element) % modulus != 0


def _repeated(element: Any, kind: Kind, most: int) -> list[Any]:
    return [element] * (digest(kind, element) % (most + 1))


def _part(element: Any, parts: int, kind: Kind) -> int:
    return digest(kind, element) % parts


class Stamp(beam.DoFn):
    """DoFn that adds to timestamps; an element without a timestamp gets a timestamp in the first seconds."""

    def __init__(self, kind: Kind, most: int) -> None:
        self._kind, self._most = kind, most

    def process(
        self, element: Any, time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue]:
        shift = digest(self._kind, element) % self._most
        base = max(time, Timestamp(0))
        # Limit timestamps to the end of time, at which groups of the global window are.
        late = base > Timestamp(1_000_000)
        yield TimestampedValue(element, base if late else base + shift)


class Look(beam.DoFn):
    """All parameters that have nothing to do with keys."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        where = told(f"{time.micros} {window}")
        yield f"{digest(self._kind, element)} {where} {pane.index}"


class LookAtKey(beam.DoFn):
    """The key of each pair."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def process(
        self,
        pair: Any,
        key: Any = beam.DoFn.KeyParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[str]:
        yield f"{render(self._kind[1], key)} {digest(self._kind, pair)} {told(window)}"


class Live(beam.DoFn):
    """DoFn that counts the calls of its methods, and buffers elements until the end of the bundle."""

    def setup(self) -> None:
        self._calls = ["setup"]

    def start_bundle(self) -> None:
        self._calls.append("start")
        self._held: list[tuple[Any, Any, Any]] = []

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> None:
        if self._calls[0] != "setup" or self._calls[-1] != "start":
            raise RuntimeError(f"an element after {self._calls[-3:]}")
        self._held.append((element, time, window))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        self._calls.append("finish")
        for element, time, window in self._held:
            yield WindowedValue(element, time, [window])

    def teardown(self) -> None:
        self._calls.append("teardown")


class _OfNumbers(beam.DoFn):
    """DoFn with explicit batch types, because Beam can't read postponed annotations."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def infer_output_type(self, input_element_type: Any) -> Any:
        return int


class Batches(_OfNumbers):
    """Batches of numbers become batches of numbers."""

    def process_batch(self, batch: Any) -> Any:
        yield [number + 1 for number in batch]


class BatchesToElements(_OfNumbers):
    """Batches of numbers become numbers."""

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return None

    @beam.DoFn.yields_elements
    def process_batch(self, batch: Any) -> Any:
        yield from batch


class ElementsToBatches(_OfNumbers):
    """Numbers become batches of numbers."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return None

    @beam.DoFn.yields_batches
    def process(self, number: int) -> Any:
        yield [number, number]


class Expand(beam.DoFn):
    """The numbers up to an element, at its own time."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Ranges())
    ) -> Iterator[int]:
        yield from claimed(tracker, self._pause)
