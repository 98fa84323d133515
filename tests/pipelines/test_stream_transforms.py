"""Transforms that Beam brings for streams, and pipelines of several streams, by a scripted clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.io import fileio
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from jobs import Pipelines

PAIRS = TupleCoder([StrUtf8Coder(), VarIntCoder()])
A, B, C = "a", "b", "c"


def at(seconds: int, *pairs: tuple[str, int]) -> list[TimestampedValue]:
    return [TimestampedValue(pair, seconds) for pair in pairs]


def stream(**kind: Any) -> Stream:
    return Stream(coder=PAIRS, **kind)


def test_two_streams_are_joined_when_both_are_far_enough(pipelines: Pipelines) -> None:
    events = (
        stream(output_tags={"left", "right"})
        .add_elements(at(1, (A, 1), (B, 2)), tag="left")
        .add_elements(at(2, (A, 10)), tag="right")
        .advance_watermark_to(20, tag="left")
        .add_elements(at(5, (B, 20)), tag="right")
        .advance_watermark_to(20, tag="right")
        .add_elements(at(25, (A, 3)), tag="left")
        .add_elements(at(26, (C, 4)), tag="right")
        .advance_watermark_to_infinity(tag="left")
        .advance_watermark_to_infinity(tag="right")
    )
    with pipelines.new("--streaming") as p:
        both = p | events
        sides = {tag: both[tag] | tag >> beam.WindowInto(FixedWindows(10)) for tag in both}
        joined = (
            sides
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda key, found: (key, *(sorted(found[s]) for s in sorted(found))))
        )
        expected = [(A, [1], [10]), (B, [2], [20]), (A, [3], []), (C, [], [4])]
        assert_that(joined, equal_to(expected))


def test_streams_and_a_batch_flow_together(pipelines: Pipelines) -> None:
    with pipelines.new("--streaming") as p:
        sources = [p | "batch" >> beam.Create([0, 1]) | beam.Map(lambda n: TimestampedValue(n, n))]
        for name in ("first", "second"):
            events = Stream(coder=VarIntCoder())
            for number in range(5):
                events.add_elements([TimestampedValue(number, 4 * number)])
                events.advance_watermark_to(4 * number + 1)
            sources.append(p | name >> events.advance_watermark_to_infinity())
        counts = (
            sources
            | beam.Flatten()
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(CountCombineFn()).without_defaults()
        )
        assert_that(counts, equal_to([2 + 3 + 3, 2 + 2]))


@pytest.mark.parametrize("seconds", [None, 10], ids=["until full", "for a while"])
def test_groups_into_batches(pipelines: Pipelines, seconds: float | None) -> None:
    """What waits too long goes before its window ends and before its batch is full."""
    events = (
        stream()
        .add_elements(at(1, *((A, n) for n in range(4))))
        .advance_processing_time(20)
        .add_elements(at(2, (A, 4), (A, 5)))
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        batches = (
            p
            | events
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupIntoBatches(3, max_buffering_duration_secs=seconds)
            | beam.MapTuple(lambda key, batch: len(list(batch)))
        )
        assert_that(batches, equal_to([3, 1, 2] if seconds else [3, 3]))


def test_files_by_window(pipelines: Pipelines, tmp_path: Path) -> None:
    events = (
        Stream(coder=StrUtf8Coder())
        .add_elements([TimestampedValue("a", 1), TimestampedValue("b", 1)])
        .advance_watermark_to(10)
        .add_elements([TimestampedValue("c", 11)])
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        _ = (
            p
            | events
            | beam.WindowInto(FixedWindows(10))
            | fileio.WriteToFiles(str(tmp_path), shards=1, sink=lambda _: fileio.TextSink())
        )
    written = [sorted(path.read_text().split()) for path in tmp_path.iterdir() if path.is_file()]
    assert sorted(written) == [["a", "b"], ["c"]]
