"""Tests that runs of elements have the results of single elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils import windowed_value
from beam_runner_worker.errors import BundleError
from mini_runner import MiniRunner, run
from one_stage import OneStage, create_chunk, record_number, seen, split_while

from beam_runner_embedded.runs import MOST_VALUES, ElementRunCollector, ElementRunLengthController

COUNT = 1000


def numbers(pipeline: beam.Pipeline) -> Any:
    """Returns a PCollection with enough numbers for runs."""
    return pipeline | beam.Create([None]) | "Numbers" >> beam.FlatMap(lambda _: range(COUNT))


def counts_of(runner: MiniRunner) -> list[int]:
    """Returns the element count of each PCollection."""
    return [
        int.from_bytes(info.payload, "little") if info.payload[0] < 128 else _varint(info.payload)
        for _, result in runner.results
        for info in result.metrics
        if info.urn == "beam:metric:element_count:v1"
    ]


def _varint(payload: bytes) -> int:
    return sum((byte & 127) << 7 * place for place, byte in enumerate(payload))


class Every(beam.DoFn):
    """A DoFn that emits its input in every possible way."""

    def process(self, number: int) -> Iterable[Any] | None:
        match number % 6:
            case 0:
                return [number]
            case 1:
                return (number,)
            case 2:
                return None
            case 3:
                return iter([number, number])
            case 4:
                return [beam.pvalue.TaggedOutput("other", number), number]
            case _:
                return [TimestampedValue(number, number)]


class Timed(beam.DoFn):
    def process(self, number: int, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        yield number, int(time) if time >= 0 else None


def test_batched_elements_have_same_results_as_in_beam() -> None:
    pipeline = beam.Pipeline()
    outputs = numbers(pipeline) | beam.ParDo(Every()).with_outputs("other", main="main")
    timed = outputs.main | beam.ParDo(Timed())
    expected = [
        (number, number if number % 6 == 5 else None)
        for number in range(COUNT)
        for _ in range([1, 1, 0, 2, 1, 1][number % 6])
    ]
    assert_that(timed, equal_to(expected), "main")
    assert_that(outputs.other, equal_to(list(range(4, COUNT, 6))), "other")
    run(pipeline)


def test_main_output_without_readers_is_dropped() -> None:
    pipeline = beam.Pipeline()
    outputs = numbers(pipeline) | beam.ParDo(Every()).with_outputs("other")
    assert_that(outputs.other, equal_to(list(range(4, COUNT, 6))))
    run(pipeline)


class Life(beam.DoFn):
    """A DoFn with a separate metric, and with output at the end of a bundle."""

    def start_bundle(self) -> None:
        self.sum = 0

    def process(self, number: int) -> None:
        Metrics.counter("test", "seen").inc()
        self.sum += number

    def finish_bundle(self) -> Iterator[Any]:
        yield window.GlobalWindows.windowed_value(self.sum)


def add(number: int, one: int, two: int = 0) -> int:
    Metrics.counter("test", "added").inc()
    return number + one + two


def test_element_counts_of_batched_steps_are_correct() -> None:
    pipeline = beam.Pipeline()
    added = [numbers(pipeline) | f"Add{i}" >> beam.Map(add, i, two=10) for i in range(1)]
    root = added[0]
    branches = [root | f"Branch{i}" >> beam.Map(add, i) for i in range(3)]
    total = tuple(branches) | beam.Flatten() | "Total" >> beam.ParDo(Life())
    assert_that(total, equal_to([3 * sum(range(COUNT)) + 3 * 10 * COUNT + 3 * COUNT]))
    runner = run(pipeline)
    assert runner.counters() == {"seen": 3 * COUNT, "added": 4 * COUNT}
    # The tree of the input: numbers, one Map, three Maps, and their flatten.
    assert sorted(counts_of(runner))[-6:] == [COUNT] * 5 + [3 * COUNT]


def test_batched_combines_in_windows_equal_combines_of_beam() -> None:
    pipeline = beam.Pipeline()
    pairs = (
        pipeline
        | beam.Create([TimestampedValue(0, 5), TimestampedValue(100, 15)])
        | beam.WindowInto(window.SlidingWindows(20, 10))
        | beam.FlatMap(lambda base: [(i % 3, base + i) for i in range(300)])
    )
    sums = pairs | beam.CombinePerKey(sum) | beam.ParDo(WithWindow())
    first = {k: sum(range(k, 300, 3)) for k in range(3)}
    second = {k: first[k] + 100 * 100 for k in range(3)}
    expected = [
        *((-10, k, first[k]) for k in range(3)),
        *((0, k, first[k] + second[k]) for k in range(3)),
        *((10, k, second[k]) for k in range(3)),
    ]
    assert_that(sums, equal_to(expected))
    run(pipeline)


class WithWindow(beam.DoFn):
    def process(self, pair: Any, within: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        yield int(within.start), *pair


def test_batched_elements_retain_their_order() -> None:
    pipeline = beam.Pipeline()
    seen.clear()
    numbers(pipeline) | beam.Filter(lambda n: n % 2 == 0) | beam.Map(record_number)
    MiniRunner(pipeline).run()
    assert seen == list(range(0, COUNT, 2))


class Boom(Exception):
    """An exception with a custom constructor, which can't be built from a text."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why, number)


def fail_at_500(number: int) -> int:
    if number == 500:
        raise Boom(number, "boom")
    return number


def test_failure_in_batch_names_step_and_original_exception() -> None:
    pipeline = beam.Pipeline()
    good = numbers(pipeline) | "Before" >> beam.Map(lambda n: n)
    good | "Bad" >> beam.Map(fail_at_500) | "After" >> beam.Map(lambda n: n)
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.transform == "Bad"
    assert failed.value.summary.endswith("Boom: ('boom', 500)")
    assert "fail_at_500" in failed.value.trace


def counting(_: None) -> Iterator[Any]:
    counts: dict[str, int] = {"n": 0}
    for number in range(COUNT):
        counts["n"] = number
        yield number, counts


def timed_counting(_: None) -> Iterator[Any]:
    return (TimestampedValue(counted, 5) for counted in counting(None))


@pytest.mark.parametrize("function", [counting, timed_counting])
def test_mutated_output_object_is_emitted_with_value_at_output(function: Any) -> None:
    pipeline = beam.Pipeline()
    counted = pipeline | beam.Create([None]) | beam.FlatMap(function)
    assert_that(
        counted | beam.Map(lambda pair: (pair[0], pair[1]["n"])),
        equal_to([(number, number) for number in range(COUNT)]),
    )
    run(pipeline)


class Finalized:
    """An object that counts the living objects of its class."""

    alive: ClassVar[list[int]] = []
    most = 0

    def __init__(self, number: int) -> None:
        self.number = number
        self.alive.append(number)
        type(self).most = max(self.most, len(self.alive))

    def __del__(self) -> None:
        self.alive.remove(self.number)


def finalized(_: None) -> Iterator[tuple[int, Finalized]]:
    return ((number, Finalized(number)) for number in range(COUNT))


def test_output_objects_are_released_as_early_as_by_beam() -> None:
    pipeline = beam.Pipeline()
    made = pipeline | beam.Create([None]) | beam.FlatMap(finalized)
    sums = made | beam.MapTuple(lambda _, one: one.number) | beam.CombineGlobally(sum)
    assert_that(sums, equal_to([sum(range(COUNT))]))
    run(pipeline)
    assert not Finalized.alive
    assert Finalized.most <= 3


def test_map_tuple_in_batch_gets_requested_window() -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([(1, 2)]) | beam.WindowInto(window.FixedWindows(10))
    ends = pairs | beam.MapTuple(lambda k, v, w=beam.DoFn.WindowParam: (k, v, int(w.end)))
    assert_that(ends, equal_to([(1, 2, -9223372036850)]), reify_windows=False)
    run(pipeline)


def stop(number: int) -> int:
    if number > 500:
        raise StopIteration
    return number


@pytest.mark.parametrize("kind", [beam.Map, beam.FlatMap])
def test_stop_iteration_of_user_code_in_batch_is_raised(kind: Any) -> None:
    pipeline = beam.Pipeline()
    numbers(pipeline) | "Stop" >> kind(stop if kind is beam.Map else lambda n: [stop(n)])
    with pytest.raises(BundleError, match="StopIteration"):
        MiniRunner(pipeline).run()


class Replacing(beam.DoFn):
    """A DoFn that replaces its own function after Beam has inspected it."""

    def setup(self) -> None:
        self.process = lambda number: [-number]  # type: ignore[method-assign]

    def process(self, number: int) -> list[int]:
        return [number]


def test_process_replaced_in_setup_is_used_for_all_elements() -> None:
    pipeline = beam.Pipeline()
    assert_that(numbers(pipeline) | beam.ParDo(Replacing()), equal_to(list(range(COUNT))))
    run(pipeline)


class Text(beam.DoFn):
    def process(self, number: int) -> Any:
        return "text"


def test_dofn_that_returns_text_instead_of_results_is_refused_as_by_beam() -> None:
    pipeline = beam.Pipeline()
    numbers(pipeline) | "Text" >> beam.ParDo(Text())
    with pytest.raises(BundleError, match="Returning a str from a ParDo or FlatMap") as failed:
        MiniRunner(pipeline).run()
    assert failed.value.transform == "Text"
    letters = beam.Pipeline()
    flat = numbers(letters) | beam.FlatMap(lambda n: "ab") | beam.combiners.Count.PerElement()
    assert_that(flat, equal_to([("a", COUNT), ("b", COUNT)]))
    run(letters)


def test_first_elements_of_bundle_are_processed_one_at_a_time() -> None:
    pipeline = beam.Pipeline() | beam.Impulse() | beam.Map(int) | beam.Map(record_number)
    with OneStage(pipeline.pipeline) as one:
        answers = split_while(one, 9, 0.0, 1000)
        one.run([create_chunk(range(1000))])
        assert answers[0] is not None and answers[0].first_residual == 10
        assert seen == list(range(10))


def test_split_in_large_batches_falls_between_batches() -> None:
    pipeline = beam.Pipeline() | beam.Impulse() | beam.Map(int) | beam.Map(record_number)
    with OneStage(pipeline.pipeline) as one:
        answers = split_while(one, 5000, 0.0, 10_000)
        one.run([create_chunk(range(10_000))])
        assert answers[0] is not None
        assert 5001 <= answers[0].first_residual <= 5001 + MOST_VALUES
        assert seen == list(range(answers[0].first_residual))


def test_batch_length_grows_and_shrinks_with_duration() -> None:
    pace = ElementRunLengthController()
    for _ in range(16):
        assert pace.values == 1
        pace.record_duration(0.0001, 1)
    for expected in (1, 2, 4, 8, 16, 32, 64, 128, 128):
        assert pace.values == expected
        pace.record_duration(0.0001, pace.values)
    pace.record_duration(0.0001, 3)  # the value that ends a chunk
    assert pace.values == MOST_VALUES
    pace.record_duration(0.1, MOST_VALUES)
    assert pace.values == 2
    pace.record_duration(5, 2)
    assert pace.values == 1


@pytest.mark.usefixtures("instant_runs")
def test_batch_collector_returns_elements_with_equal_metadata_together() -> None:
    taken: list[Any] = []

    class Target:
        def process_element_run(self, like: Any, values: list[Any]) -> None:
            taken.append((like.timestamp_micros, values))

    collector = ElementRunCollector(Target(), lambda element: taken.append(element.value))
    value = window.GlobalWindows.windowed_value
    for number in range(17):
        collector.add_element(value(number))
    assert taken == list(range(17))
    taken.clear()
    given_ = [value(0), value(1), value(2), value(3).with_value(3), value(4, 7), value(5, 7)]
    shared = given_[0].windows
    for element in given_:
        element.windows = shared
        collector.add_element(element)
    assert taken == [(given_[0].timestamp_micros, [0, 1]), (given_[0].timestamp_micros, [2, 3])]
    collector.flush_elements()
    assert taken[2:] == [(7_000_000, [4, 5])]


@pytest.mark.usefixtures("instant_runs")
def test_batch_collector_returns_elements_with_equal_windows_together() -> None:
    taken: list[Any] = []

    class Target:
        def process_element_run(self, like: Any, values: list[Any]) -> None:
            taken.append(values)

    collector = ElementRunCollector(Target(), lambda element: None)
    starts = [0] * 40 + [10] * 40
    for number, start in enumerate(starts):
        # Beam makes such a list for each element with a timestamp.
        windows = [window.IntervalWindow(start, start + 10)]
        collector.add_element(windowed_value.create(number, 0, windows))
    collector.flush_elements()
    assert max(map(len, taken)) > 4
    assert not any(values[0] < 40 <= values[-1] for values in taken)


@pytest.mark.usefixtures("instant_runs")
def test_elements_with_distinct_timestamps_are_not_delayed_by_batching() -> None:
    taken: list[Any] = []

    class Target:
        def process_element_run(self, like: Any, values: list[Any]) -> None:
            taken.append(values)

    collector = ElementRunCollector(Target(), lambda element: taken.append(element.value))
    for number in range(50):
        collector.add_element(window.GlobalWindows.windowed_value(number, number))
        assert taken == list(range(number + 1))
    alike = window.GlobalWindows.windowed_value(None, 60)
    for number in range(50, 60):
        collector.add_element(alike.with_value(number))
    assert taken[50:52] == [50, 51]
    assert [52, 53] in taken
    collector.add_element(window.GlobalWindows.windowed_value(60, 61))
    collector.flush_elements()
    flat = [value for each in taken for value in (each if isinstance(each, list) else [each])]
    assert flat == list(range(61))
