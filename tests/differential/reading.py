"""Steps with splittable DoFns of all sorts, and files that are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.coders import coders
from apache_beam.io import fileio, iobase, watermark_estimators
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from rules import may_pause, told
from side_inputs import global_if_merging
from sources import Ranges, claimed
from typed import Collection, digits, keyed, numbers_by_key
from values import Kind, hint
from windows import Windows

_FILES = ("elements.py", "spec.py", "sink.py")


def random_files(rng: random.Random) -> dict[str, Any]:
    ways = ["text", "all", "names", "match", "contents"]
    return {"way": rng.choice(ways), "files": rng.sample(_FILES, rng.choice([1, 2]))}


def files(root: Any, label: str, *, way: str, files: list[str]) -> Collection:
    """Reads lines of files beside this module."""
    paths = [str(Path(__file__).with_name(name)) for name in files]
    if way == "text":
        lines = root | f"{label}/Read" >> beam.io.ReadFromText(paths[0])
        return Collection(lines, "str", Windows(), label)
    named = root | f"{label}/Paths" >> beam.Create(paths)
    if way in ("all", "names"):
        made = beam.io.ReadAllFromText(with_filename=way == "names", desired_bundle_size=500)
        lines = named | f"{label}/Read" >> made
        if way == "names":
            lines = lines | f"{label}/Name" >> beam.Map(_named).with_output_types(str)
        return Collection(lines, "str", Windows(), label)
    matched = named | f"{label}/Match" >> fileio.MatchAll()
    if way == "match":
        told = matched | f"{label}/Tell" >> beam.Map(_size).with_output_types(str)
        return Collection(told, "str", Windows(), label)
    contents = matched | f"{label}/Open" >> fileio.ReadMatches()
    words = beam.FlatMap(_first_words).with_output_types(str)
    return Collection(contents | f"{label}/Words" >> words, "str", Windows(), label)


class Letters(iobase.RestrictionTracker):
    """Restriction tracker that claims the letters of a text from its start; the residual is a text, too."""

    def __init__(self, text: str) -> None:
        self._text, self._taken = text, 0

    def current_restriction(self) -> str:
        return self._text

    def try_claim(self, position: int) -> bool:
        if position >= len(self._text):
            return False
        self._taken = position + 1
        return True

    def current_progress(self) -> iobase.RestrictionProgress:
        return iobase.RestrictionProgress(completed=self._taken, remaining=len(self._text))

    def try_split(self, fraction_of_remainder: float) -> tuple[str, str] | None:
        left = len(self._text) - self._taken
        cut = self._taken + int(left * fraction_of_remainder)
        if cut >= len(self._text):
            return None
        primary, residual = self._text[:cut], self._text[cut:]
        self._text = primary
        return primary, residual

    def check_done(self) -> None:
        if self._taken < len(self._text):
            raise ValueError(f"{self._text[self._taken :]!r} is left")

    def is_bounded(self) -> bool:
        return True


class Texts(RestrictionProvider):
    """A text for each number, cut in two."""

    def initial_restriction(self, element: Any) -> str:
        return "abcdefghij"[: element[1] % 10]

    def create_tracker(self, restriction: str) -> Letters:
        return Letters(restriction)

    def restriction_size(self, element: Any, restriction: str) -> int:
        return len(restriction)

    def split(self, element: Any, restriction: str) -> Iterator[str]:
        half = len(restriction) // 2
        yield from (part for part in (restriction[:half], restriction[half:]) if part)

    def restriction_coder(self) -> Any:
        return coders.StrUtf8Coder()

    def truncate(self, element: Any, restriction: str) -> None:
        return None


class Spell(beam.DoFn):
    """DoFn that emits letters one by one, with a key, to two outputs."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        tracker: Any = beam.DoFn.RestrictionParam(Texts()),
    ) -> Iterator[Any]:
        text, position = tracker.current_restriction(), 0
        while tracker.try_claim(position):
            if text[position] in "aei":
                yield pvalue.TaggedOutput("vowels", (element[0], text[position]))
            else:
                yield element[0], f"{text[position]} {told(window)}"
            position += 1
            if position == self._pause and may_pause():
                tracker.defer_remainder()
                return


def random_spell(rng: random.Random) -> dict[str, Any]:
    return {"pause": rng.choice([0, 1, 3]), "take": rng.choice(["main", "vowels"])}


def spell(one: Collection, *, pause: int, take: str) -> Collection:
    """Applies a splittable DoFn with a custom restriction to pairs, and returns one of its outputs."""
    pairs = keyed(one)
    key = pairs.kind[1]
    numbers = numbers_by_key(pairs)
    kind: Kind = ("tuple", key, "str")
    made = beam.ParDo(Spell(pause)).with_output_types(hint(kind))
    outputs = numbers.pc | f"{one.label}/Spell" >> made.with_outputs("vowels", main="main")
    return attrs.evolve(numbers, pc=outputs[take], kind=kind)


class Steady(WatermarkEstimatorProvider):
    """Provider of watermark estimators whose state is their position.

    Args:
        make: function from a state to an estimator. Beam's own providers start without state, so
            that no restriction can be deferred.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def initial_estimator_state(self, element: Any, restriction: Any) -> Any:
        return MIN_TIMESTAMP

    def create_watermark_estimator(self, estimator_state: Any) -> Any:
        return self._make(estimator_state)


class Watched(beam.DoFn):
    """Numbers up to an element at a later second each, with the watermark behind them."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            Steady(watermark_estimators.ManualWatermarkEstimator)
        ),
    ) -> Iterator[TimestampedValue]:
        for number in claimed(tracker, self._pause):
            estimator.set_watermark(Timestamp(number))
            yield TimestampedValue(number, number)


class Monotonic(beam.DoFn):
    """Provider of an estimator that observes the output timestamps."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            Steady(watermark_estimators.MonotonicWatermarkEstimator)
        ),
    ) -> Iterator[TimestampedValue]:
        for number in claimed(tracker, self._pause):
            yield TimestampedValue(number, number)


def random_watched(rng: random.Random) -> dict[str, Any]:
    return {
        "counts": [rng.randrange(12) for _ in range(rng.randrange(4))],
        "pause": rng.choice([0, 3]),
        "manual": rng.random() < 0.5,
    }


def watched(root: Any, label: str, *, counts: list[int], pause: int, manual: bool) -> Collection:
    """Reads numbers with a splittable DoFn that reports its watermark."""
    made = root | f"{label}/Counts" >> beam.Create(counts).with_output_types(int)
    do_fn = Watched(pause) if manual else Monotonic(pause)
    numbers = beam.ParDo(do_fn).with_output_types(int)
    return Collection(made | f"{label}/Watched" >> numbers, "int", Windows(), label)


class Beside(beam.DoFn):
    """Splittable DoFn of the numbers up to an element, with its side input."""

    def process(
        self, element: int, side: Any, tracker: Any = beam.DoFn.RestrictionParam(Ranges())
    ) -> Iterator[str]:
        for number in claimed(tracker, 0):
            yield f"{number} {sorted(side)}"


def random_expand_beside(rng: random.Random) -> dict[str, Any]:
    return {}


def expand_beside(one: Collection, other: Collection) -> Collection:
    """Applies a splittable DoFn with a side input."""
    side = digits(global_if_merging(other.named(f"{one.label}/side")), 5)
    made = beam.ParDo(Beside(), pvalue.AsIter(side.pc)).with_output_types(str)
    return digits(one, 6).apply("Expand", made, "str")


def _named(pair: tuple[str, str]) -> str:
    return f"{Path(pair[0]).name}: {pair[1]}"


def _size(found: Any) -> str:
    return f"{Path(found.path).name} {found.size_in_bytes}"


def _first_words(file: Any) -> list[str]:
    words: list[str] = file.read_utf8().split()
    return words[:20]
