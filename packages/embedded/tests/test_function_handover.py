"""Tests that a stage unpickles each function once, and passes the same function to its operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms.core import RestrictionProvider
from mini_runner import MiniRunner

from beam_runner_embedded.function_handover import hand_over_functions


class UnpicklingRecorder:
    """Base class of functions that write a line to a file each time that they are unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write("unpickled\n")


class UnpickledDoFn(UnpicklingRecorder, beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield element


class Offsets(RestrictionProvider):
    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


TRACKER = beam.DoFn.RestrictionParam(Offsets())


class UnpickledSplittable(UnpickledDoFn):
    def process(self, element: int, tracker: Any = TRACKER) -> Iterator[int]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield number
            number += 1


class UnpickledSum(UnpicklingRecorder, beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize(
    ("make", "operation_count"),
    [
        (lambda path: beam.ParDo(UnpickledDoFn(path)), 1),
        # Pairs with restrictions, splits, processes.
        (lambda path: beam.ParDo(UnpickledSplittable(path)), 3),
        # Lifts, merges, extracts.
        (lambda path: beam.CombineGlobally(UnpickledSum(path)).without_defaults(), 3),
    ],
)
def test_function_of_an_operation_is_unpickled_once(
    tmp_path: Path, make: Callable[[Path], beam.PTransform], operation_count: int
) -> None:
    path = tmp_path / "unpickled"
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([3, 4]) | "function" >> make(path)
    runner = MiniRunner(pipeline)
    path.write_text("")
    runner.run()
    assert len(path.read_text().splitlines()) == operation_count


def test_handover_ends_with_its_context() -> None:
    with hand_over_functions():
        assert bundle_processor.pickler is not pickler
        assert operations.pickler.loads(pickler.dumps([1])) == [1]
    assert bundle_processor.pickler is operations.pickler is pickler
