"""The element that user code was at when it raised is told, and only that one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from mini_runner import MiniRunner

from beam_runner_worker.embedded.failing_element import shown
from beam_runner_worker.errors import BundleFailed


def _boom(element: Any) -> Any:
    if element == ("b", 2):
        raise ValueError("boom")
    return element


class Plain(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield _boom(element)


class Rich(beam.DoFn):
    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        yield 1
        yield _boom(element)


class Finishing(beam.DoFn):
    def process(self, element: Any) -> None:
        pass

    def finish_bundle(self) -> None:
        raise ValueError("boom")


class Adding(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        if value == 2:
            raise ValueError("boom")
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> int:
        return 0

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize(
    ("transform", "element"),
    [
        (beam.Map(_boom), "('b', 2)"),
        (beam.Filter(_boom), "('b', 2)"),
        (beam.FlatMap(lambda pair: [_boom(pair)]), "('b', 2)"),
        (beam.Map(lambda pair: pair) | beam.Map(_boom), "('b', 2)"),
        (beam.Map(lambda pair: 1 / (pair[1] - 2)), "('b', 2)"),
        (beam.ParDo(Plain()), "('b', 2)"),
        (beam.ParDo(Rich()), "('b', 2)"),
        (beam.ParDo(Finishing()), ""),
        # Results are encoded together, and which of them is wrong is not told.
        (beam.Map(lambda pair: "no number").with_output_types(int) | beam.Reshuffle(), ""),
        (beam.CombinePerKey(Adding()), "2"),
    ],
)
def test_the_element_that_user_code_was_at(transform: beam.PTransform, element: str) -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("a", 1), ("b", 2), ("c", 3)]) | "Same" >> beam.Map(lambda x: x)
    _ = pairs | "Failing" >> transform
    with pytest.raises(BundleFailed) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == element


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "element",
    [
        b"x" * 10_000_000,
        "x" * 10_000_000,
        list(range(1_000_000)),
        dict.fromkeys(range(1000), "x" * 1000),
        10**5000,
        Unprintable(),
        "\n",
        Lines(),
    ],
    ids=["bytes", "str", "list", "dict", "int", "unprintable", "line", "lines"],
)
def test_its_text_is_short_and_one_line(element: Any) -> None:
    text = shown(element)
    assert 0 < len(text) <= 400
    assert "\n" not in text
