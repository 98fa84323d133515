"""Tests that batched DoFns get and emit the batches of Beam's consumer sets, without work for each element."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.worker import operations
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.batch import ListBatchConverter
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import HomogeneousWindowedBatch
from batched import NumberBatchDoFn
from beam_runner_worker.errors import BundleError
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_runner import MiniRunner, run
from noting import SEEN, Note

from beam_runner_embedded import batch_runs, run_operations
from beam_runner_embedded.batch_runs import MOST_ELEMENTS, BatchUnpacker, ElementRunBatcher
from beam_runner_embedded.runs import MOST_VALUES

Build = Callable[[beam.Pipeline], Any]

window_fns = st.one_of(
    st.builds(window.GlobalWindows),
    st.builds(window.FixedWindows, st.sampled_from([10, 20])),
    st.builds(window.SlidingWindows, st.just(20), st.just(10)),
)


class NoteBatch(NumberBatchDoFn):
    """A DoFn that notes each batch with its window and time, and adds one to each number."""

    def process_batch(
        self,
        batch: list[int],
        within: Any = beam.DoFn.WindowParam,
        time: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[list[int]]:
        SEEN.append((batch, within, time))
        yield [number + 1 for number in batch]


class PlainBatch(NumberBatchDoFn):
    """A DoFn that notes the size of each batch, and adds one to each number."""

    def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
        SEEN.append(len(batch))
        Metrics.counter("space", "batched").inc(len(batch))
        yield [number + 1 for number in batch]


class BatchToElements(NumberBatchDoFn):
    """A DoFn that takes batches, and yields elements."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: list[int]) -> Iterator[int]:
        yield from (2 * number for number in batch)


class ElementToBatches(NumberBatchDoFn):
    """A DoFn that takes elements, and yields batches of all kinds."""

    @beam.DoFn.yields_batches
    def process(self, number: int, within: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        yield [number, -number]
        yield []
        if number % 3 == 0:
            yield TaggedOutput("other", [number])
        if number % 5 == 0:
            yield HomogeneousWindowedBatch(windowed_value.create([number], 7_000_000, (within,)))


class Either(NumberBatchDoFn):
    """A DoFn that takes elements or batches."""

    def process(self, number: int) -> Iterator[int]:
        SEEN.append(("element", number))
        yield number

    def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
        SEEN.append(("batch", batch))
        yield batch


def make_numbers(pipeline: beam.Pipeline, times: list[int], window_fn: Any, count: int) -> Any:
    """Returns numbers in runs with one timestamp each."""
    return (
        pipeline
        | beam.Create(times)
        | beam.FlatMap(lambda t: [TimestampedValue(t + i, t) for i in range(count)])
        | beam.WindowInto(window_fn)
        | beam.Map(abs).with_output_types(int)
    )


def note_all(build: Build) -> collections.Counter[str]:
    """Returns everything that DoFns of a pipeline noted."""
    SEEN.clear()
    pipeline = beam.Pipeline()
    build(pipeline)
    MiniRunner(pipeline).run()
    return collections.Counter(map(repr, SEEN))


def check_like_beam(build: Build) -> None:
    in_runs = note_all(build)
    assert in_runs
    with mock.patch.object(run_operations, "ElementRunParDo", operations.DoOperation):
        one_by_one = note_all(build)
    assert in_runs == one_by_one


@settings(max_examples=5)
@given(window_fns, st.lists(st.integers(-30, 30), min_size=1, max_size=4), st.integers(1, 300))
def test_batched_dofns_get_batches_of_beam(window_fn: Any, times: list[int], count: int) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        numbers = make_numbers(pipeline, times, window_fn, count)
        added = numbers | "first" >> beam.ParDo(NoteBatch()) | "second" >> beam.ParDo(NoteBatch())
        added | "doubled" >> beam.ParDo(BatchToElements()) | "elements" >> beam.ParDo(Note())
        added | "beside" >> beam.ParDo(Note())

    check_like_beam(build)


@settings(max_examples=5)
@given(window_fns, st.lists(st.integers(-30, 30), min_size=1, max_size=4))
def test_batches_of_all_outputs_become_elements(window_fn: Any, times: list[int]) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        numbers = make_numbers(pipeline, times, window_fn, 20)
        made = numbers | "batches" >> beam.ParDo(ElementToBatches()).with_outputs(
            "other", main="main"
        )
        made.main | "main" >> beam.ParDo(Note())
        made.other | "other" >> beam.ParDo(Note())

    check_like_beam(build)


@pytest.mark.parametrize("before", [beam.Map(abs), beam.ParDo(PlainBatch())])
def test_dofn_for_elements_or_batches_gets_what_beam_passes(before: beam.PTransform) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        numbers = make_numbers(pipeline, [0], window.GlobalWindows(), 50)
        numbers | "before" >> before.with_output_types(int) | beam.ParDo(Either())

    check_like_beam(build)


def test_batches_have_at_most_4096_elements_and_the_last_ends_with_the_bundle() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: range(10_000))
    added = numbers | "typed" >> beam.Map(abs).with_output_types(int) | beam.ParDo(PlainBatch())
    assert_that(added, equal_to(list(range(1, 10_001))))
    SEEN.clear()
    run(pipeline)
    assert SEEN == [MOST_ELEMENTS, MOST_ELEMENTS, 10_000 - 2 * MOST_ELEMENTS]


def test_batch_of_a_bundle_contains_no_elements_of_a_failed_bundle() -> None:
    batcher = ElementRunBatcher(ListBatchConverter(list, int), SEEN.append)
    like = window.GlobalWindows.windowed_value(None)
    SEEN.clear()
    batcher.process_element_run(like, [1, 2])
    batcher.reset()
    batcher.process_element_run(like, [3])
    batcher.flush_batches()
    assert [batch.values for batch in SEEN] == [[3]]


def test_elements_with_alternating_headers_form_one_batch_each() -> None:
    batcher = ElementRunBatcher(ListBatchConverter(list, int), SEEN.append)
    early, late = (
        windowed_value.create(None, micros, (window.GlobalWindow(),)) for micros in (1, 2)
    )
    SEEN.clear()
    for number in range(6):
        batcher.process_element_run(late if number % 2 else early, [number])
    batcher.flush_batches()
    assert [batch.values for batch in SEEN] == [[0, 2, 4], [1, 3, 5]]


def test_chain_of_batched_dofns_unpacks_only_the_last_batches() -> None:
    unpacked: list[list[int]] = []

    def explode(self: Any, batch: list[int]) -> Iterable[int]:
        unpacked.append(batch)
        return iter(batch)

    def build(pipeline: beam.Pipeline) -> None:
        numbers = make_numbers(pipeline, [0], window.GlobalWindows(), 100)
        for place in range(3):
            numbers = numbers | f"add {place}" >> beam.ParDo(PlainBatch())
        numbers | beam.ParDo(Note())

    with mock.patch.object(ListBatchConverter, "explode_batch", explode):
        note_all(build)
    assert unpacked == [list(range(3, 103))]


class RunRecorder:
    """A consumer that stores runs."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []

    def process_element_run(self, like: Any, values: list[int]) -> None:
        self.runs.append(values)


@pytest.mark.usefixtures("instant_runs")
def test_elements_of_a_batch_are_emitted_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_runs, "time", mock.Mock(perf_counter=lambda: 0.0))
    recorder = RunRecorder()
    unpacker = BatchUnpacker(None, ListBatchConverter(list, int), recorder)
    for _ in range(2):
        values = window.GlobalWindows.windowed_value(list(range(1000)))
        unpacker.receive_batch(HomogeneousWindowedBatch(values))
    assert [number for values in recorder.runs for number in values] == 2 * list(range(1000))
    assert {len(values) for values in recorder.runs[-7:-1]} == {MOST_VALUES}


def test_metrics_of_batches_belong_to_their_step() -> None:
    pipeline = beam.Pipeline()
    numbers = make_numbers(pipeline, [0], window.GlobalWindows(), 10)
    _ = numbers | "first" >> beam.ParDo(PlainBatch()) | "second" >> beam.ParDo(PlainBatch())
    runner = MiniRunner(pipeline).run()
    steps = [
        dict(info.labels)["PTRANSFORM"]
        for _, result in runner.results
        for info in result.metrics
        if dict(info.labels).get("NAME") == "batched"
    ]
    assert [step.split("/")[0].removeprefix("ref_AppliedPTransform_") for step in steps] == [
        "first",
        "second",
    ]


def test_elements_that_form_no_batch_fail_the_batched_dofn() -> None:
    pipeline = beam.Pipeline()
    numbers = make_numbers(pipeline, [0], window.GlobalWindows(), 10)
    _ = numbers | "Bad" >> beam.ParDo(PlainBatch())
    unsuitable = mock.Mock(side_effect=ValueError("no batch"))
    with (
        mock.patch.object(ListBatchConverter, "produce_batch", unsuitable),
        pytest.raises(BundleError, match="no batch") as failed,
    ):
        MiniRunner(pipeline).run()
    assert (failed.value.transform, failed.value.element) == ("Bad", "")
