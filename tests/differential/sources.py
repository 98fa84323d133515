"""Steps that read nothing: Create, Impulse, and splittable DoFns that read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io import iobase, range_trackers
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from rules import may_pause
from typed import Collection
from values import Kind, hint, random_kind, random_value
from windows import Windows


def random_create(rng: random.Random) -> dict[str, Any]:
    kind: Any = random_kind(rng)
    if rng.random() < 0.3:
        kind = ("tuple", rng.choice(["int", "str", "bytes", "mixed-key", "point"]), kind)
    size = rng.choice([0, 1, 2, 5, 10, 30])
    values = [random_value(rng, kind) for _ in range(size)]
    times = [rng.randrange(-5, 40) for _ in values] if rng.random() < 0.7 else None
    # Pickled values can't be keys: Beam doesn't find the coder of a class within a tuple.
    hinted = rng.random() < 0.7 or kind[1:2] == ("parcel",)
    return {"kind": kind, "values": values, "times": times, "hinted": hinted}


def create(
    root: Any, label: str, *, kind: Kind, values: list[Any], times: list[int] | None, hinted: bool
) -> Collection:
    """Elements of a kind, at times in seconds, or all at the beginning of time."""
    type_hint = hint(kind) if hinted else Any
    if times is None:
        made = beam.Create(values).with_output_types(type_hint)
        return Collection(root | f"{label}/Create" >> made, kind, Windows(), label)
    pairs = root | f"{label}/Create" >> beam.Create(list(zip(values, times, strict=True)))
    stamped = pairs | f"{label}/Stamp" >> beam.Map(_stamped).with_output_types(type_hint)
    return Collection(stamped, kind, Windows(), label)


def random_impulse(rng: random.Random) -> dict[str, Any]:
    return {"count": rng.choice([0, 1, 7])}


def impulse(root: Any, label: str, *, count: int) -> Collection:
    """Makes numbers with their value as timestamp (s), from one impulse."""
    pc = root | f"{label}/Impulse" >> beam.Impulse()
    made = beam.FlatMap(_numbers, count).with_output_types(int)
    return Collection(pc | f"{label}/Numbers" >> made, "int", Windows(), label)


def random_read(rng: random.Random) -> dict[str, Any]:
    return {
        "counts": [rng.randrange(12) for _ in range(rng.randrange(4))],
        "pause": rng.choice([0, 3]),
    }


def read(root: Any, label: str, *, counts: list[int], pause: int) -> Collection:
    """Numbers that a splittable DoFn reads, which may pause after every few of them."""
    made = root | f"{label}/Counts" >> beam.Create(counts).with_output_types(int)
    numbers = beam.ParDo(Read(pause)).with_output_types(int)
    return Collection(made | f"{label}/Read" >> numbers, "int", Windows(), label)


def random_bounded(rng: random.Random) -> dict[str, Any]:
    return {"count": rng.choice([0, 5, 40])}


def bounded(root: Any, label: str, *, count: int) -> Collection:
    """Reads numbers from a bounded source, as file sources do."""
    pc = root | f"{label}/Read" >> beam.io.Read(Numbers(count))
    return Collection(pc, "int", Windows(), label)


class Ranges(RestrictionProvider):
    """The numbers from 0 up to the element, in chunks of four."""

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()

    def split(self, element: int, restriction: OffsetRange) -> Iterator[OffsetRange]:
        yield from restriction.split(4, 2)


class Read(beam.DoFn):
    """Splittable DoFn of the numbers up to an element, with their value as timestamp (s)."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Ranges())
    ) -> Iterator[TimestampedValue]:
        for number in claimed(tracker, self._pause):
            yield TimestampedValue(number, number)


def claimed(tracker: Any, pause: int) -> Iterator[int]:
    """Yields the numbers of a restriction, up to the next pause."""
    position = tracker.current_restriction().start
    while tracker.try_claim(position):
        yield position
        position += 1
        if pause and position % pause == 0 and may_pause():
            tracker.defer_remainder()
            return


class Numbers(iobase.BoundedSource):
    """Numbers from 0 on."""

    def __init__(self, count: int) -> None:
        self._count = count

    def estimate_size(self) -> int:
        return self._count

    def split(
        self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[iobase.SourceBundle]:
        for start in range(0, self._count, 7):
            yield iobase.SourceBundle(7, self, start, min(start + 7, self._count))

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> Any:
        stop = self._count if stop_position is None else stop_position
        return range_trackers.OffsetRangeTracker(start_position or 0, stop)

    def read(self, range_tracker: Any) -> Iterator[int]:
        position = range_tracker.start_position()
        while range_tracker.try_claim(position):
            yield position
            position += 1

    def default_output_coder(self) -> Any:
        return beam.coders.VarIntCoder()


def _stamped(pair: tuple[Any, int]) -> TimestampedValue:
    return TimestampedValue(*pair)


def _numbers(_: bytes, count: int) -> Iterator[TimestampedValue]:
    for number in range(count):
        yield TimestampedValue(number, number)
