"""Tests of commits by window: groups of batches, and the step after a window's last commit."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    IntervalWindow,
    Sessions,
    SlidingWindows,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from toy_sink import StagingSink, ToySink, ToySystem

from beam_spark_io import WriteExactlyOnce, WriteFilesExactlyOnce, patience
from beam_spark_io.exactly_once.batches import BatchGroup
from beam_spark_io.exactly_once.committing import CommitResult
from beam_spark_io.exactly_once.protocols import CommitWindow, SinkUnavailable
from beam_spark_io.exactly_once.windows import (
    CompleteWindows,
    SplitGroups,
    TriggeredParDo,
    WindowResult,
    key_by_window,
)

WINDOW = IntervalWindow(60, 120)


class FolderSink(ToySink):
    """Sink that records completed windows, and is unavailable for some calls."""

    def __init__(self) -> None:
        super().__init__(ToySystem())
        self.completed: list[tuple[str, str | None]] = []
        self.outages = 0

    def complete_window(self, run: str, window: str | None) -> str | None:
        if self.outages:
            self.outages -= 1
            raise SinkUnavailable("the folder is away")
        self.completed.append((run, window))
        return None if window is None else f"{window} is complete"


def split(max_bytes: int | None, *sizes: int, named: bool = True) -> list[BatchGroup]:
    step = SplitGroups((lambda _: "minute") if named else None, 30.0, max_bytes)
    groups = list(step.process((5, [bytes(size) for size in sizes]), WINDOW))
    assert {shard for shard, _ in groups} == {5}
    return [group for _, group in groups]


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (None, [[4, 4, 9, 1]]),
        (8, [[4, 4], [9], [1]]),
        (10, [[4, 4], [9, 1]]),
        (1, [[4], [4], [9], [1]]),
    ],
)
def test_group_of_batches_stays_below_maximum_size(
    max_bytes: int | None, expected: list[list[int]]
) -> None:
    groups = split(max_bytes, 4, 4, 9, 1)
    assert [[len(batch) for batch in group.batches] for group in groups] == expected


def test_group_of_batches_has_name_and_expiry_of_its_window() -> None:
    (group,) = split(None, 1)
    assert group.window == CommitWindow("minute", 150_000_000)
    (group,) = split(None, 1, named=False)
    assert group.window is None


def test_global_window_expires_at_the_end_of_time() -> None:
    step = SplitGroups(lambda _: "all", 30.0, None)
    ((_, group),) = step.process((0, [b""]), GlobalWindow())
    assert group.window is not None
    assert group.window.expiry == GlobalWindow().max_timestamp().micros < MAX_TIMESTAMP.micros


def test_triggered_par_do_changes_trigger_and_keeps_windows() -> None:
    trigger = Repeatedly(AfterProcessingTime(5))
    windows = SlidingWindows(10, 5)
    elements = (
        beam.Pipeline()
        | beam.Create([1])
        | beam.WindowInto(windows, allowed_lateness=7)
        | TriggeredParDo(beam.DoFn(), trigger)
    )
    assert elements.windowing.windowfn == windows
    assert elements.windowing.triggerfn == trigger
    assert elements.windowing.allowed_lateness == 7
    assert elements.windowing.accumulation_mode == AccumulationMode.DISCARDING


def key(window: str | None) -> str:
    of_commit = None if window is None else CommitWindow(window, 150_000_000)
    return key_by_window(CommitResult("run", 0, 1, None, of_commit))[0]


def test_window_completion_timer_is_set_to_window_expiry() -> None:
    class Timer:
        time: Any = None

        def set(self, time: Timestamp) -> None:
            self.time = time

    found = key_by_window(CommitResult("run", 0, 1, None, CommitWindow("minute", 150_000_000)))
    timer = Timer()
    CompleteWindows(FolderSink(), None).process(found, timer)
    assert timer.time == Timestamp(150)


@pytest.mark.parametrize("window", ["minute", "date=1/hour=2", None])
def test_window_is_completed_after_outages(
    window: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(patience, "_sleep", pauses.append)
    sink = FolderSink()
    sink.outages = 3
    results = list(CompleteWindows(sink, None).complete_window(key(window)))
    assert sink.completed == [("run", window)]
    assert pauses == [0.1, 0.2, 0.4]
    done = WindowResult("run", window, f"{window} is complete")
    assert results == ([] if window is None else [done])


def test_window_completion_by_an_unavailable_sink_fails_after_its_time_limit() -> None:
    sink = FolderSink()
    sink.outages = 1
    with pytest.raises(SinkUnavailable, match="the folder is away"):
        list(CompleteWindows(sink, 0.0).complete_window(key("minute")))


def test_sink_refuses_merging_windows() -> None:
    sessions = beam.Pipeline() | beam.Create([{}]) | beam.WindowInto(Sessions(5))
    with pytest.raises(ValueError, match="Can't commit by Sessions, because these windows merge"):
        sessions | WriteFilesExactlyOnce("/folder", "csv", by_window=True)


def test_sink_without_window_completion_has_no_completion_step() -> None:
    pipeline = beam.Pipeline()
    elements = pipeline | beam.Create([1]) | beam.WindowInto(FixedWindows(5))
    _ = elements | "Toy" >> WriteExactlyOnce(ToySink(ToySystem()))
    _ = elements | "Folder" >> WriteExactlyOnce(FolderSink())
    names = [one.unique_name for one in pipeline.to_runner_api().components.transforms.values()]
    assert "Toy/Commit" in names
    assert "Toy/Complete" not in names
    assert "Folder/Complete" in names


@pytest.mark.parametrize(("sink", "sides"), [(ToySink, 0), (StagingSink, 1)])
def test_batches_have_a_side_input_only_for_writers(sink: type[ToySink], sides: int) -> None:
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | "Toy" >> WriteExactlyOnce(sink(ToySystem()))
    steps = pipeline.to_runner_api().components.transforms.values()
    (batch,) = (one for one in steps if one.unique_name == "Toy/Batch")
    assert len(batch.inputs) == 1 + sides
