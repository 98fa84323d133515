"""Tests that a split removes only elements that the running bundle hasn't started, and that the
bundle processes all other elements.
"""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import pytest
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.chunks import ElementChunk
from one_stage import OneStage, create_chunk, hooks, record_number, run_in_thread, seen, split_while


def plain() -> beam.Pipeline:
    pipeline = beam.Pipeline()
    pipeline | beam.Impulse() | beam.Map(lambda text: record_number(int(text)))
    return pipeline


def test_split_between_bundles_returns_no_element() -> None:
    with OneStage(plain()) as one:
        assert one.stage.split(0, 10) is None
        assert one.stage.get_progress() is None
        one.run([create_chunk([1])])
        assert one.stage.split(0, 10) is None
        assert one.stage.get_progress() is None


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [3, 4, 3], [0, 5, 0, 5, 0]])
@pytest.mark.parametrize(
    ("at", "keep", "first_residual"),
    [(0, 0.0, 1), (4, 0.0, 5), (4, 0.5, 7), (0, 0.5, 5), (8, 0.0, 9), (0, 0.99, None)],
)
def test_split_between_elements_divides_input(
    sizes: list[int], at: int, keep: float, first_residual: int | None
) -> None:
    numbers = iter(range(10))
    chunks = [create_chunk([next(numbers) for _ in range(size)]) for size in sizes]
    with OneStage(plain()) as one:
        answers = split_while(one, at, keep, 10)
        one.run(chunks)
        if first_residual is None:
            assert answers == [None]
            assert seen == list(range(10))
        else:
            assert answers == [BundleSplit(first_residual - 1, first_residual)]
            assert seen == list(range(first_residual))
        seen.clear()
        hooks.clear()
        one.run([create_chunk(range(10))])
        assert seen == list(range(10))


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_last_element_of_stage_without_restrictions_cannot_be_split_off(keep: float) -> None:
    with OneStage(plain()) as one:
        answers = split_while(one, 9, keep, 10)
        one.run([create_chunk(range(10))])
        assert answers == [None]
        assert seen == list(range(10))


def test_elements_outside_of_the_selected_input_are_not_counted_in_splits() -> None:
    with OneStage(plain()) as one:
        answers = split_while(one, 5, 0.0, 6)
        chunk = create_chunk(range(10))
        part = ElementChunk(chunk.count, chunk.data, first=4, last=7)
        one.run([part, part])
        assert answers[0] == BundleSplit(1, 2)
        assert seen == [4, 5]


def test_split_bundle_reads_its_input_only_up_to_the_split_point() -> None:
    pulled: list[int] = []

    def inputs() -> Iterator[ElementChunk]:
        for start in range(0, 100, 10):
            pulled.append(start)
            yield create_chunk(range(start, start + 10))

    with OneStage(plain()) as one:
        answers = split_while(one, 12, 0.1, 100)
        one.run(inputs())
        assert answers == [BundleSplit(20, 21)]
        assert seen == list(range(21))
        assert pulled == [0, 10, 20]


def test_split_while_bundle_waits_for_input_is_accepted() -> None:
    with OneStage(plain()) as one:
        answers = []

        def inputs() -> Iterator[ElementChunk]:
            yield create_chunk([0, 1, 2])
            answers.append(run_in_thread(lambda: one.stage.split(0.0, 6)))
            assert run_in_thread(one.stage.get_progress).processed == 3
            yield create_chunk([3, 4, 5])

        one.run(inputs())
        assert answers == [BundleSplit(2, 3)]
        assert seen == [0, 1, 2]


def test_split_before_first_element_returns_all_elements_or_a_part() -> None:
    with OneStage(plain()) as one:
        answers = []

        def inputs(keep: float) -> Iterator[ElementChunk]:
            answers.append(run_in_thread(lambda: one.stage.split(keep, 6)))
            yield create_chunk(range(6))

        one.run(inputs(0.0))
        assert seen == []
        one.run(inputs(0.5))
        assert seen == [0, 1, 2]
        assert answers == [BundleSplit(-1, 0), BundleSplit(2, 3)]


def test_bundle_can_be_split_repeatedly() -> None:
    with OneStage(plain()) as one:
        first = split_while(one, 1, 0.5, 100)
        second = split_while(one, 9, 0.5, 100)
        third = split_while(one, 10, 0.0, 100)
        fourth = split_while(one, 5, 1.0, 100)
        one.run([create_chunk(range(100))])
        assert first == [BundleSplit(50, 51)]
        assert fourth == [None]
        assert second == [BundleSplit(29, 30)]
        assert third == [BundleSplit(10, 11)]
        assert seen == list(range(11))


class Finishing(beam.DoFn):
    def process(self, element: bytes) -> None:
        record_number(int(element))

    def finish_bundle(self) -> None:
        record_number(-1)


def test_split_while_bundle_finishes_returns_no_element() -> None:
    pipeline = beam.Pipeline()
    pipeline | beam.Impulse() | beam.ParDo(Finishing())
    with OneStage(pipeline) as one:
        answers = split_while(one, -1, 0.0, 100)
        one.run([create_chunk(range(3))])
        assert answers == [None]


def test_groups_are_split_like_elements() -> None:
    pipeline = beam.Pipeline()
    # Groups with even numbers are decoded at once, and the others during iteration.
    pairs = [(number, "text" * (20_000 if number % 2 else 1)) for number in range(10)]
    grouped = pipeline | beam.Impulse() | beam.FlatMap(lambda _: pairs) | beam.GroupByKey()
    grouped | beam.MapTuple(
        lambda key, values: (record_number(key), [len(text) for text in values])
    )
    with OneStage(pipeline) as one:
        one.runner.run_stage(one.planned)
        one.select_stage(one.runner.plan.stages[-1])
        answers = split_while(one, 4, 0.3, 10)
        one.run(one.inputs())
        assert answers == [BundleSplit(5, 6)]
        assert seen == list(range(6))


@pytest.mark.parametrize(
    ("at", "keep", "points", "first_residual"),
    [
        (4, 0.0, [2, 7, 9], 7),
        (4, 0.0, [2, 5, 9], 5),
        (4, 0.99, [2, 7, 9], 9),
        (4, 0.5, [2], None),
        (0, 0.0, [2, 4], 2),
        (8, 0.5, [9], 9),
    ],
)
def test_split_of_embedded_bundle_is_at_allowed_elements_only(
    at: int, keep: float, points: list[int], first_residual: int | None
) -> None:
    with OneStage(plain()) as one:
        answers = split_while(one, at, keep, 10, points)
        one.run([create_chunk(range(10))])
        end = 10 if first_residual is None else first_residual
        assert answers == [None if first_residual is None else BundleSplit(end - 1, end)]
        assert seen == list(range(end))


def test_progress_of_embedded_bundle_counts_elements() -> None:
    with OneStage(plain()) as one:
        answers = []
        hooks[7] = lambda: answers.append(run_in_thread(one.stage.get_progress))
        one.run([create_chunk(range(5)), create_chunk(range(5, 10))])
        assert [answer.processed for answer in answers] == [7]
