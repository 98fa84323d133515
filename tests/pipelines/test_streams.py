"""Tests of panes, watermarks, side inputs and transforms of streams that a TestStream drives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.io import fileio
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming
from jobs import Pipelines

DISCARDING = trigger.AccumulationMode.DISCARDING
ACCUMULATING = trigger.AccumulationMode.ACCUMULATING
ON_TIME = "ON_TIME"


def at(time: int, *values: Any) -> list[TimestampedValue]:
    return [TimestampedValue(value, time) for value in values]


class Panes(beam.DoFn):
    """The sorted values of a group, with the timing and the number of their pane."""

    def process(
        self, group: tuple[str, Iterable[Any]], pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[tuple[list[Any], str, int]]:
        yield sorted(group[1]), PaneInfoTiming.to_string(pane.timing), pane.index


def panes(values: beam.PCollection, windows: Any, when: Any, mode: Any, lateness: int = 0) -> Any:
    return (
        values
        | beam.WindowInto(windows, trigger=when, accumulation_mode=mode, allowed_lateness=lateness)
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.ParDo(Panes())
    )


def test_combined_panes_have_exact_values(pipelines: Pipelines) -> None:
    stream = (
        Stream()
        .add_elements(at(1, ("a", 1), ("b", 10)))
        .add_elements(at(2, ("a", 2)))
        .advance_watermark_to(10)
        .add_elements(at(11, ("a", 4)))
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        sums = (
            p
            | stream
            | beam.WindowInto(
                FixedWindows(10),
                trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
                accumulation_mode=ACCUMULATING,
            )
            | beam.CombinePerKey(sum)
        )
        # Elements that arrive together form a pane; final panes accumulate earlier elements.
        early = [("a", 1), ("b", 10), ("a", 3), ("a", 4)]
        assert_that(sums, equal_to([*early, ("a", 3), ("b", 10), ("a", 4)]))


@pytest.mark.parametrize("everywhere", ["embedded", "LOOPBACK", "PROCESS"], indirect=True)
def test_windows_wait_for_their_side_inputs_independently(
    everywhere: Pipelines, tmp_path: Path
) -> None:
    """Each window of an element in several windows continues as soon as its side input is ready."""
    log = tmp_path / "log"
    stream = (
        Stream(output_tags={"main", "side", "marks"})
        .add_elements(at(6, "a", "b"), tag="main")
        .add_elements(at(2, "early"), tag="side")
        .add_elements(["one"], tag="marks")
        .advance_watermark_to(10, tag="side")
        .add_elements(["two"], tag="marks")
        .add_elements(at(12, "late"), tag="side")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
        .advance_watermark_to_infinity(tag="marks")
    )

    def note(value: Any) -> None:
        with log.open("a") as file:
            file.write(f"{value}\n")

    def use(value: Any, side: Any) -> tuple[Any, Any]:
        note((value, list(side)))
        return value, list(side)

    with everywhere.new("--streaming") as p:
        outputs = p | stream
        outputs["marks"] | "marks" >> beam.Map(note)
        main = outputs["main"] | "main windows" >> beam.WindowInto(SlidingWindows(10, 5))
        side = outputs["side"] | "side windows" >> beam.WindowInto(FixedWindows(10))
        seen = main | "use" >> beam.Map(use, beam.pvalue.AsIter(side))
        first, second = ["early"], ["late"]
        assert_that(seen, equal_to([("a", first), ("b", first), ("a", second), ("b", second)]))
    lines = log.read_text().splitlines()
    assert [lines[0], lines[3]] == ["one", "two"]
    assert sorted(lines[1:3]) == [str(("a", first)), str(("b", first))]
    assert len(lines) == 6


@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING], ids=["discarding", "accumulating"])
def test_singleton_side_input_has_its_latest_value(pipelines: Pipelines, mode: Any) -> None:
    stream = (
        Stream(output_tags={"main", "side"})
        .add_elements(["waits"], tag="main")
        .add_elements([1], tag="side")
        .add_elements(["after one"], tag="main")
        .add_elements([2, 5], tag="side")
        .add_elements(["after two"], tag="main")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
    )
    with pipelines.new("--streaming") as p:
        outputs = p | stream
        firing = beam.WindowInto(
            GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=mode,
        )
        values = outputs["side"] | firing
        largest = (
            values | beam.CombineGlobally(lambda each: max(each, default=0)).without_defaults()
        )
        for label, side in {"as it is": values, "combined": largest}.items():
            seen = outputs["main"] | label >> beam.Map(
                lambda x, value: (x, value), beam.pvalue.AsSingleton(side)
            )
            expected = [("waits", 1), ("after one", 1), ("after two", 5)]
            assert_that(seen, equal_to(expected), label=f"seen {label}")


def test_test_stream_without_a_final_watermark_ends(pipelines: Pipelines) -> None:
    """After the last event of the TestStream no element can arrive, so all open windows close."""
    with pipelines.new("--streaming") as p:
        values = p | Stream().add_elements(at(1, 1, 2)).advance_watermark_to(5)
        found = panes(values, FixedWindows(10), trigger.AfterWatermark(), DISCARDING)
        assert_that(found, equal_to([([1, 2], ON_TIME, 0)]))


def test_elements_at_the_maximum_timestamp_are_processed(pipelines: Pipelines) -> None:
    with pipelines.new("--streaming") as p:
        last = [TimestampedValue("x", GlobalWindows.windowed_value(0).windows[0].max_timestamp())]
        values = p | Stream().add_elements(last).advance_watermark_to_infinity()
        seen = values | beam.Map(lambda x, t=beam.DoFn.TimestampParam: (x, t < MAX_TIMESTAMP))
        assert_that(seen, equal_to([("x", True)]))


PAIRS = TupleCoder([StrUtf8Coder(), VarIntCoder()])
A, B, C = "a", "b", "c"


def stream(**kind: Any) -> Stream:
    return Stream(coder=PAIRS, **kind)


def test_joined_streams_wait_for_the_later_watermark(pipelines: Pipelines) -> None:
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


def test_flattened_streams_and_batch_give_exact_results(pipelines: Pipelines) -> None:
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
def test_group_into_batches_emits_at_size_time_and_window_end(
    pipelines: Pipelines, seconds: float | None
) -> None:
    """Elements that wait too long leave before their window ends and before their batch is full."""
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


def test_files_are_written_for_each_window(pipelines: Pipelines, tmp_path: Path) -> None:
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
