"""User code of all kinds that raises at one element, for the tests of failing elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import WindowedValue
from batched import NumberBatchDoFn
from one_restriction import OffsetRangeProvider

BAD = ("b", 2)
PAIRS = [("a", 1), BAD, ("c", 3)]


def raise_at_bad_pair(element: Any) -> Any:
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
        return repr(raise_at_bad_pair(value.pair)).encode()

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
        return Coded(raise_at_bad_pair(eval(encoded)))


class Estimated(Coded):
    """A value like `Coded`, whose size Beam estimates before it encodes the value."""


beam.coders.registry.register_coder(Coded, CodedCoder)
beam.coders.registry.register_coder(Estimated, CodedAndEstimatedCoder)
beam.coders.registry.register_coder(ReadOnly, UnreadableCoder)


class FailingDoFn(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield raise_at_bad_pair(element)


class MultiParameterDoFn(beam.DoFn):
    """A DoFn with several parameters, output before the failure, and parameters not named `element` or `self`."""

    def __init__(self, call: Callable[[Any], Any] = raise_at_bad_pair) -> None:
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


class ReassigningDoFn(beam.DoFn):
    def process(self, element: Any) -> None:
        whole, element = element, element[0]
        raise_at_bad_pair(whole)


class FailingBatchDoFn(NumberBatchDoFn):
    def process_batch(self, batch: list[int]) -> Iterable[list[int]]:
        raise_at_bad_pair(("b", batch[1]))
        yield batch


class LifecycleFailure(beam.DoFn):
    def __init__(self, where: str) -> None:
        self._where = where

    def _fail_at(self, where: str) -> None:
        if where == self._where:
            raise ValueError("boom")

    def setup(self) -> None:
        self._fail_at("setup")

    def start_bundle(self) -> None:
        self._fail_at("start")

    def process(self, element: Any) -> None:
        pass

    def finish_bundle(self) -> Iterator[Any]:
        self._fail_at("finish")
        end = window.GlobalWindow().max_timestamp()
        yield WindowedValue(Coded(BAD), end, (window.GlobalWindow(),))


class FailingCombineFn(beam.CombineFn):
    def __init__(self, where: str) -> None:
        self._where = where

    def _fail_at(self, where: str, value: Any) -> Any:
        if where == self._where and value == 2:
            raise ValueError("boom")
        return value

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        return accumulator + self._fail_at("add", value)

    def merge_accumulators(self, accumulators: Any) -> int:
        return self._fail_at("merge", sum(accumulators))

    def extract_output(self, accumulator: int) -> int:
        return self._fail_at("extract", accumulator)


class FailingCompactCombineFn(FailingCombineFn):
    def compact(self, accumulator: int) -> int:
        return self._fail_at("compact", accumulator)


class FailingAt700(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        return 1 // (value - 700)

    def merge_accumulators(self, accumulators: Any) -> int:
        return 0

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class FailingWindowFn(window.NonMergingWindowFn):
    def assign(self, context: window.WindowFn.AssignContext) -> list[Any]:
        raise_at_bad_pair(context.element)
        return [window.IntervalWindow(0, 10)]

    def get_window_coder(self) -> coders.Coder:
        return coders.IntervalWindowCoder()


class FailingRanges(OffsetRangeProvider):
    def __init__(self, where: str) -> None:
        self._where = where

    def _fail_at(self, where: str, element: Any) -> None:
        if where == self._where:
            raise_at_bad_pair(element)

    def initial_restriction(self, element: Any) -> OffsetRange:
        self._fail_at("initial", element)
        return OffsetRange(0, element[1])

    def split(self, element: Any, restriction: OffsetRange) -> Iterator[OffsetRange]:
        self._fail_at("split", element)
        yield restriction

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        self._fail_at("size", element)
        return restriction.size()

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        self._fail_at("tracker", ("b", restriction.stop))
        return OffsetRestrictionTracker(restriction)


def create_failing_splittable(where: str, claimed: int = 0) -> beam.PTransform:
    class Splittable(beam.DoFn):
        def process(
            self,
            element: Any,
            tracker: Any = beam.DoFn.RestrictionParam(FailingRanges(where)),  # noqa: B008
        ) -> Iterator[Any]:
            tracker.try_claim(claimed if element == BAD else 0)
            if where == "process":
                raise_at_bad_pair(element)
            yield Coded(element) if where == "encode" else element
            tracker.try_claim(element[1])

    return beam.ParDo(Splittable()).with_output_types(Coded if where == "encode" else Any)


def map_with_side_input(
    values: list[Any], view: type[beam.pvalue.AsSideInput]
) -> Callable[..., Any]:
    def apply(pairs: beam.PCollection) -> beam.PCollection:
        side = view(pairs.pipeline | "Side" >> beam.Create(values))
        return pairs | beam.Map(lambda pair, given: given[pair] if pair == BAD else pair, side)

    return beam.ptransform_fn(apply)()


@beam.ptransform_fn
def materialize(made: beam.PCollection) -> beam.PCollection:
    """A transform whose PCollection is materialized, because it is a side input of another stage."""
    return made.pipeline | beam.Impulse() | beam.Map(lambda x, y: x, beam.pvalue.AsIter(made))


def assign_fixed_windows() -> beam.PTransform:
    return beam.WindowInto(window.FixedWindows(10))


def replace_keys(key: Any) -> beam.PTransform:
    return beam.Map(lambda pair: (key(pair), pair[1])).with_output_types(tuple[key, int])


class UnitSizeProvider(OffsetRangeProvider):
    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1


SIZED_ALIKE = beam.DoFn.RestrictionParam(UnitSizeProvider())


class OffsetClaimer(beam.DoFn):
    def process(self, element: Any, tracker: Any = SIZED_ALIKE) -> None:
        for place in range(6):
            tracker.try_claim(place)
