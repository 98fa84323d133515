"""User code of all kinds that raises at one element, for the tests of failing elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import WindowedValue
from batched import OfNumbers
from one_restriction import Counting

BAD = ("b", 2)
PAIRS = [("a", 1), BAD, ("c", 3)]


def boom(element: Any) -> Any:
    if element == BAD:
        raise ValueError("boom")
    return element


class Coded:
    """A value whose custom coder fails at one value."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def __repr__(self) -> str:
        return f"Coded{self.pair}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coded) and self.pair == other.pair

    def __hash__(self) -> int:
        return hash(self.pair)


class ReadOnly(Coded):
    """A value that can't be decoded."""


class CodedCoder(coders.Coder):
    def encode(self, value: Coded) -> bytes:
        return repr(boom(value.pair)).encode()

    def decode(self, encoded: bytes) -> Coded:
        return Coded(eval(encoded))

    def is_deterministic(self) -> bool:
        return True

    def estimate_size(self, value: Coded) -> int:
        return 8  # so that encoding the value fails


class CodedAndEstimatedCoder(CodedCoder):
    def estimate_size(self, value: Coded) -> int:
        return len(self.encode(value))


class UnreadableCoder(CodedCoder):
    def encode(self, value: Coded) -> bytes:
        return repr(value.pair).encode()

    def decode(self, encoded: bytes) -> Coded:
        return Coded(boom(eval(encoded)))


class Estimated(Coded):
    """A value like `Coded`, whose size Beam estimates before it encodes the value."""


beam.coders.registry.register_coder(Coded, CodedCoder)
beam.coders.registry.register_coder(Estimated, CodedAndEstimatedCoder)
beam.coders.registry.register_coder(ReadOnly, UnreadableCoder)


class Plain(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield boom(element)


class Rich(beam.DoFn):
    """A DoFn with several parameters, output before the failure, and parameters not named `element` or `self`."""

    def __init__(self, call: Callable[[Any], Any] = boom) -> None:
        self._call = call

    def process(
        this,
        pair: Any,
        time: Any = beam.DoFn.TimestampParam,
        place: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        result = this._call(pair)
        pair = None
        yield result


class Reassigning(beam.DoFn):
    def process(self, element: Any) -> None:
        whole, element = element, element[0]
        boom(whole)


class Batched(OfNumbers):
    def process_batch(self, batch: list[int]) -> Iterable[list[int]]:
        boom(("b", batch[1]))
        yield batch


class InLife(beam.DoFn):
    def __init__(self, where: str) -> None:
        self._where = where

    def _maybe(self, where: str) -> None:
        if where == self._where:
            raise ValueError("boom")

    def setup(self) -> None:
        self._maybe("setup")

    def start_bundle(self) -> None:
        self._maybe("start")

    def process(self, element: Any) -> None:
        pass

    def finish_bundle(self) -> Iterator[Any]:
        self._maybe("finish")
        end = window.GlobalWindow().max_timestamp()
        yield WindowedValue(Coded(BAD), end, (window.GlobalWindow(),))


class Combining(beam.CombineFn):
    def __init__(self, where: str) -> None:
        self._where = where

    def _maybe(self, where: str, value: Any) -> Any:
        if where == self._where and value == 2:
            raise ValueError("boom")
        return value

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        return accumulator + self._maybe("add", value)

    def merge_accumulators(self, accumulators: Any) -> int:
        return self._maybe("merge", sum(accumulators))

    def extract_output(self, accumulator: int) -> int:
        return self._maybe("extract", accumulator)


class Compacting(Combining):
    def compact(self, accumulator: int) -> int:
        return self._maybe("compact", accumulator)


class At700(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        return 1 // (value - 700)

    def merge_accumulators(self, accumulators: Any) -> int:
        return 0

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class ByElement(window.NonMergingWindowFn):
    def assign(self, context: window.WindowFn.AssignContext) -> list[Any]:
        boom(context.element)
        return [window.IntervalWindow(0, 10)]

    def get_window_coder(self) -> coders.Coder:
        return coders.IntervalWindowCoder()


class Ranges(Counting):
    def __init__(self, where: str) -> None:
        self._where = where

    def _maybe(self, where: str, element: Any) -> None:
        if where == self._where:
            boom(element)

    def initial_restriction(self, element: Any) -> OffsetRange:
        self._maybe("initial", element)
        return OffsetRange(0, element[1])

    def split(self, element: Any, restriction: OffsetRange) -> Iterator[OffsetRange]:
        self._maybe("split", element)
        yield restriction

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        self._maybe("size", element)
        return restriction.size()

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        self._maybe("tracker", ("b", restriction.stop))
        return OffsetRestrictionTracker(restriction)


def splittable(where: str, claimed: int = 0) -> beam.PTransform:
    class Splittable(beam.DoFn):
        def process(
            self,
            element: Any,
            tracker: Any = beam.DoFn.RestrictionParam(Ranges(where)),  # noqa: B008
        ) -> Iterator[Any]:
            tracker.try_claim(claimed if element == BAD else 0)
            if where == "process":
                boom(element)
            yield Coded(element) if where == "encode" else element
            tracker.try_claim(element[1])

    return beam.ParDo(Splittable()).with_output_types(Coded if where == "encode" else Any)


def coded(kind: type[Coded] = Coded) -> beam.PTransform:
    return beam.Map(kind).with_output_types(kind)


def beside(values: list[Any], view: type[beam.pvalue.AsSideInput]) -> Callable[..., Any]:
    def apply(pairs: beam.PCollection) -> beam.PCollection:
        side = view(pairs.pipeline | "Side" >> beam.Create(values))
        return pairs | beam.Map(lambda pair, given: given[pair] if pair == BAD else pair, side)

    return beam.ptransform_fn(apply)()


@beam.ptransform_fn
def Written(made: beam.PCollection) -> beam.PCollection:
    """A transform whose PCollection is materialized, because it is a side input of another stage."""
    return made.pipeline | beam.Impulse() | beam.Map(lambda x, y: x, beam.pvalue.AsIter(made))


def fixed() -> beam.PTransform:
    return beam.WindowInto(window.FixedWindows(10))


def of_keys(key: Any) -> beam.PTransform:
    return beam.Map(lambda pair: (key(pair), pair[1])).with_output_types(tuple[key, int])


class SizedAlike(Counting):
    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1


SIZED_ALIKE = beam.DoFn.RestrictionParam(SizedAlike())


class Counted(beam.DoFn):
    def process(self, element: Any, tracker: Any = SIZED_ALIKE) -> None:
        for place in range(6):
            tracker.try_claim(place)
