"""Tests that few elements retain their order, as on other runners, in one bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from jobs import Pipelines

COUNT = 50


class Before(beam.DoFn):
    """Stateful DoFn that emits each value with the previous value of its key."""

    LAST = ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(
        self, pair: tuple[str, int], last: Any = beam.DoFn.StateParam(LAST)
    ) -> Iterator[tuple[int, int | None]]:
        yield pair[1], last.read()
        last.write(pair[1])


def test_few_elements_reach_state_in_order(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        pairs = p | beam.Create([("k", number) for number in range(COUNT)])
        again = pairs | beam.Reshuffle() | beam.ParDo(Before())
        assert_that(again, equal_to([(n, n - 1 if n else None) for n in range(COUNT)]))


def test_few_lines_are_written_to_one_file(pipelines: Pipelines, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(COUNT)]
    with pipelines.new() as p:
        p | beam.Create(lines) | beam.Reshuffle() | beam.io.WriteToText(str(tmp_path / "out"))
    (file,) = tmp_path.glob("out*")
    assert file.read_text().splitlines() == lines
