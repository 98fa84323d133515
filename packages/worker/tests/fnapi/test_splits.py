"""Tests that the residuals of a bundle, from splits or checkpoints, and its own output cover each element once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import desk as desk_module
import pytest
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.chunks import ElementChunk
from desk import TRACKER, CountNumbers, DeferRemainder, Desk
from last_stage import create_counting_stage, create_visiting_stage
from tiny_host import TinyHost, new_pipeline, pickle_by_value

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)


@pytest.mark.parametrize(("keep", "first_residual"), [(0.0, 3), (0.4, 5), (0.5, 6), (1.0, None)])
def test_split_returns_complete_elements_as_residual(serve, tmp_path, keep, first_residual):
    """The split is at 2.5 of 9 elements, of which 6.5 remain."""
    desk = Desk(tmp_path).hold(2)
    last = create_visiting_stage(list(range(9)), desk, serve)
    assert last.stage.split(0.0, 9) is None
    bundle = last.run(last.inputs)
    desk.wait_for(2)
    split = last.stage.split(keep, 9)
    assert bundle.running
    desk.release_place()
    result = bundle.result()
    assert result.residuals == ()
    assert last.stage.split(0.0, 9) is None
    if first_residual is None:
        assert split is None
        assert desk.notes() == [str(i) for i in range(9)]
        return
    assert split == BundleSplit(first_residual - 1, first_residual)
    assert desk.notes() == [str(i) for i in range(first_residual)]
    last.run(last.elements(split)).result()
    assert desk.notes() == [str(i) for i in range(9)]


@pytest.mark.parametrize(("points", "first_residual"), [([2, 4, 8], 4), ([1, 8], 8), ([2], None)])
def test_split_over_fn_api_is_at_allowed_elements_only(serve, tmp_path, points, first_residual):
    desk = Desk(tmp_path).hold(2)
    last = create_visiting_stage(list(range(9)), desk, serve)
    bundle = last.run(last.inputs)
    desk.wait_for(2)
    split = last.stage.split(0.0, 9, points)
    desk.release_place()
    bundle.result()
    end = 9 if first_residual is None else first_residual
    assert split == (None if first_residual is None else BundleSplit(end - 1, end))
    assert desk.notes() == [str(i) for i in range(end)]


def test_split_of_last_element_returns_no_element(serve, tmp_path):
    desk = Desk(tmp_path).hold(2)
    last = create_visiting_stage([0, 1, 2], desk, serve)
    bundle = last.run(last.inputs)
    desk.wait_for(2)
    assert last.stage.split(0.0, 3) is None
    assert last.stage.split(0.0, 3) is None
    desk.release_place()
    bundle.result()


def test_second_split_returns_more_elements(serve, tmp_path):
    desk = Desk(tmp_path).hold(1)
    last = create_visiting_stage(list(range(20)), desk, serve)
    bundle = last.run(last.inputs)
    desk.wait_for(1)
    first = last.stage.split(0.5, 20)
    second = last.stage.split(0.5, 20)
    assert 2 < second.first_residual < first.first_residual < 20
    assert last.stage.split(1.0, 20) is None
    desk.release_place()
    bundle.result()
    assert desk.notes() == [str(i) for i in range(second.first_residual)]


@pytest.mark.parametrize("keep", [0.0, 0.3])
def test_element_with_restriction_is_split_inside_restriction(serve, tmp_path, keep):
    desk = Desk(tmp_path).hold("100:20")
    last = create_counting_stage([10, 100, 30], CountNumbers(desk), serve)
    bundle = last.run(last.inputs)
    desk.wait_for("100:20")
    split = last.stage.split(keep, 3)
    assert (split.last_primary, split.first_residual) == (0, 2)
    assert len(split.primaries) == len(split.residuals) == 1
    assert split.residuals[0].delay_ms == 0
    again = last.stage.split(0.0, 3) if keep else None
    desk.release_place()
    assert bundle.result().residuals == ()
    kept = len(desk.notes()) - 10
    assert kept == 21 if keep == 0 or again else 21 < kept < 60
    expected = [f"{n}:{i}" for n in (10, 100, 30) for i in range(n)]
    given = last.elements(split)
    if again is not None:
        assert (again.last_primary, again.first_residual) == (0, 2)
        given = [ElementChunk(1, again.residuals[0].element), *given]
    last.run(given).result()
    assert desk.notes() == expected
    # A primary is the start of the element, for a retry of the bundle.
    (tmp_path / "notes").unlink()
    last.run([ElementChunk(1, (again or split).primaries[0])]).result()
    assert desk.notes() == expected[10 : 10 + kept]


class CountsOn(CountNumbers):
    """A DoFn that counts endlessly. Only a split ends it."""

    @beam.DoFn.unbounded_per_element()
    def process(self, element: int, tracker: Any = TRACKER) -> Any:
        for number in super().process(element, tracker):
            yield number
            time.sleep(0.001)


def test_unbounded_element_is_checkpointed_and_resumed(serve, tmp_path):
    desk = Desk(tmp_path)
    last = create_counting_stage([10**12], CountsOn(desk), serve)
    inputs, reached = last.inputs, 0
    for _ in range(5):
        bundle = last.run(inputs)
        desk.wait_for(f"{10**12}:{reached}")
        split = last.stage.split(0.0, 1)
        assert bundle.result().residuals == ()
        assert (split.last_primary, split.first_residual) == (-1, 1)
        inputs = last.elements(split)
        reached = len(desk.notes())
    assert reached >= 5
    assert desk.notes() == [f"{10**12}:{i}" for i in range(reached)]


def test_deferred_element_returns_with_delay_and_watermark(serve):
    p = new_pipeline()
    deferred = p | beam.Impulse() | beam.FlatMap(lambda _: [1, 5]) | beam.ParDo(DeferRemainder())
    deferred | beam.Reshuffle() | beam.Map(lambda x: None)
    host = TinyHost(p)
    server = serve(host)
    host.run_stage(host.specs[0], server.get_harness(host.specs[0].environment_id))
    spec = host.specs[1]
    stage = server.get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    inputs = host.inputs(spec)
    for number in range(5):
        result = stage.process_bundle("b", inputs, host.outputs(spec))
        # The element 1 has no work left after its only number.
        assert len(result.residuals) == (1 if number < 4 else 0)
        for residual in result.residuals:
            assert residual.delay_ms == 1500
            assert residual.watermark == [-2001, -1001, 0, 1000][number]
        inputs = [ElementChunk(1, each.element) for each in result.residuals]
    (rows,) = host.outputs(spec).values()
    assert len(rows.rows) == 6


def test_input_after_split_point_is_not_sent(serve, tmp_path):
    """The input exceeds the data in flight. The rest isn't even pulled."""
    desk = Desk(tmp_path).hold(3)
    last = create_visiting_stage(list(range(10)), desk, serve)
    pulled = []

    def endless() -> Iterator[ElementChunk]:
        yield from last.inputs
        large = last.inputs[-1]
        while True:
            pulled.append(large.count)
            yield ElementChunk(
                large.count * 200_000, bytes(large.data) * 200_000, first=large.count
            )

    bundle = last.run(endless())
    desk.wait_for(3)
    split = last.stage.split(0.0, 10**9)
    assert split == BundleSplit(3, 4)
    desk.release_place()
    bundle.result()
    assert desk.notes() == ["0", "1", "2", "3"]
    assert 0 < len(pulled) < 10


@pytest.mark.parametrize("seed", range(3))
def test_random_splits_process_each_element_once(serve, tmp_path, seed):
    rng = random.Random(seed)
    desk = Desk(tmp_path)
    numbers = [rng.randrange(1, 200) for _ in range(12)]
    last = create_counting_stage(numbers, Slow(desk), serve)
    waiting = [last.inputs]
    bundles = 0
    while waiting:
        last.inputs = waiting.pop()
        count = sum(chunk.selected_count for chunk in last.inputs)
        bundle = last.run(last.inputs)
        bundles += 1
        while bundle.running and bundles < 60:
            time.sleep(rng.random() * 0.02)
            split = last.stage.split(rng.choice([0.0, 0.3, 0.7, 0.9]), count)
            if split is not None:
                count = min(count, split.first_residual)
                waiting.append(_given_away(last.inputs, split))
                last.inputs = _kept(last.inputs, split)
        assert bundle.result().residuals == ()
    assert bundles > 5
    expected = [f"{number}:{i}" for number in numbers for i in range(number)]
    assert sorted(desk.notes()) == sorted(expected)


class Slow(CountNumbers):
    def process(self, element: int, tracker: Any = TRACKER) -> Any:
        for number in super().process(element, tracker):
            yield number
            time.sleep(0.0005)


def _single(chunks: list[ElementChunk]) -> list[ElementChunk]:
    """Yields each selected element in a separate chunk."""
    singles = []
    for chunk in chunks:
        stop = chunk.first + chunk.selected_count
        singles += [
            ElementChunk(chunk.count, chunk.data, chunk.ends, first=i, last=i + 1)
            for i in range(chunk.first, stop)
        ]
    return singles


def _given_away(chunks: list[ElementChunk], split: BundleSplit) -> list[ElementChunk]:
    residuals = [ElementChunk(1, each.element) for each in split.residuals]
    return residuals + _single(chunks)[split.first_residual :]


def _kept(chunks: list[ElementChunk], split: BundleSplit) -> list[ElementChunk]:
    return _single(chunks)[: split.first_residual]
