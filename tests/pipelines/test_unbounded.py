"""Tests of unbounded sources that checkpoint, report watermarks, and end or are stopped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from failing_streams import NumberSource
from jobs import Pipelines


def windowed_sums(numbers: beam.PCollection, size: int = 10) -> beam.PCollection:
    return (
        numbers
        | beam.WindowInto(FixedWindows(size))
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, values, w=beam.DoFn.WindowParam: (int(w.end), sum(values)))
    )


def test_windows_close_while_the_unbounded_source_continues(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    """The source waits for the output of the first window, which a batch would never emit."""
    seen = tmp_path / "seen"

    def note(end: int, total: int) -> tuple[int, int]:
        if end == 10:
            seen.touch()
        return end, total

    with pipelines.new("--streaming") as p:
        numbers = p | beam.Create([25]) | beam.ParDo(NumberSource(15, seen, at_a_time=5))
        sums = windowed_sums(numbers) | beam.MapTuple(note)
        assert_that(sums, equal_to([(10, 45), (20, 145), (30, 110)]))


def test_processing_time_panes_fire_without_new_elements(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    """The test runs in real time: no watermark moves, and the clock alone fires the pane."""
    seen = tmp_path / "seen"

    def note(group: tuple[str, Iterable[int]]) -> list[int]:
        seen.touch()
        return sorted(group[1])

    with pipelines.new("--streaming") as p:
        values = (
            p
            | beam.Create([6])
            | beam.ParDo(NumberSource(3, seen, at_a_time=3))
            | beam.WindowInto(
                GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterProcessingTime(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.FlatMap(note)
        )
        assert_that(values, equal_to(list(range(6))))
