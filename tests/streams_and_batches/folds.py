"""Combine functions, as Beam gets them and as a function of all values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms import combiners


class Extremes(beam.CombineFn):
    """The least and the greatest value, and the count. Only pickle encodes the accumulator."""

    def create_accumulator(self) -> dict[str, int]:
        return {}

    def add_input(self, accumulator: dict[str, int], element: int) -> dict[str, int]:
        return self.merge_accumulators([accumulator, {"n": 1, "low": element, "high": element}])

    def merge_accumulators(self, accumulators: Iterable[dict[str, int]]) -> dict[str, int]:
        full = [each for each in accumulators if each]
        if not full:
            return {}
        return {
            "n": sum(each["n"] for each in full),
            "low": min(each["low"] for each in full),
            "high": max(each["high"] for each in full),
        }

    def extract_output(self, accumulator: dict[str, int]) -> tuple[int, int, int]:
        return accumulator["n"], accumulator["low"], accumulator["high"]


class Sorted(beam.CombineFn):
    """All values in order."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [each for one in accumulators for each in one]

    def extract_output(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(sorted(accumulator))


FOLDS: dict[str, tuple[Callable[[], Any], Callable[[Sequence[int]], Any]]] = {
    "sum": (lambda: sum, sum),
    "count": (combiners.CountCombineFn, len),
    "mean": (combiners.MeanCombineFn, lambda values: sum(values) / len(values)),
    "top": (lambda: combiners.TopCombineFn(2), lambda values: sorted(values)[:-3:-1]),
    "extremes": (Extremes, lambda values: (len(values), min(values), max(values))),
    "sorted": (Sorted, lambda values: tuple(sorted(values))),
}
"""Combine functions by name: the factory of Beam's function, and the equivalent function of all values."""
