"""Tests of a split inside the current element of a splittable DoFn: another bundle processes the residual."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.chunks import ElementChunk
from beam_runner_worker.errors import BundleError
from one_stage import OneStage, hooks, record_number, run_in_thread, seen, split_while

WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Ranges(RestrictionProvider):
    """A provider whose restriction has a hundred numbers, starting at the element times a hundred."""

    tracker: type[OffsetRestrictionTracker] = OffsetRestrictionTracker

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(int(element) * 100, int(element) * 100 + 100)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return self.tracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return restriction.size()


class Unsplittable(OffsetRestrictionTracker):
    def try_split(self, fraction_of_remainder: float) -> Any:
        raise NotImplementedError

    def current_progress(self) -> Any:
        raise NotImplementedError


class Broken(OffsetRestrictionTracker):
    error: type[BaseException] = ValueError

    def try_split(self, fraction_of_remainder: float) -> Any:
        raise self.error("half way through")

    def current_progress(self) -> Any:
        raise self.error("no idea")


class WithUnsplittable(Ranges):
    tracker = Unsplittable


class WithBroken(Ranges):
    tracker = Broken


class Exiting(Broken):
    error = SystemExit


class WithExiting(Ranges):
    tracker = Exiting


def read_with(provider: RestrictionProvider) -> beam.DoFn:
    class Read(beam.DoFn):
        def process(
            self,
            element: Any,
            tracker: Any = beam.DoFn.RestrictionParam(provider),  # noqa: B008
            watermark: Any = WATERMARK,
        ) -> Iterator[int]:
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                watermark.set_watermark(Timestamp(position))
                yield record_number(position)
                position += 1

    return Read()


def reading(provider: RestrictionProvider, elements: Iterable[int] = (0,)) -> beam.Pipeline:
    pipeline = beam.Pipeline()
    texts = pipeline | beam.Impulse() | beam.FlatMap(lambda _: [str(e) for e in elements])
    texts | "Read" >> beam.ParDo(read_with(provider))
    return pipeline


def resumed(one: OneStage, elements: Iterable[bytes]) -> list[int]:
    """Returns the numbers that these elements represent."""
    seen.clear()
    hooks.clear()
    one.run([ElementChunk(1, element) for element in elements])
    return list(seen)


@pytest.mark.parametrize(("keep", "first_given"), [(0.0, 31), (0.5, 65)])
def test_restriction_in_process_is_split(keep: float, first_given: int) -> None:
    with OneStage(reading(Ranges())) as one:
        answers = split_while(one, 30, keep, 1)
        result = one.run(one.inputs())
        assert seen == list(range(first_given))
        assert result.residuals == ()
        (split,) = answers
        assert (split.last_primary, split.first_residual) == (-1, 1)
        (residual,) = split.residuals
        assert (residual.delay_ms, residual.watermark) == (0, 30_000)
        assert resumed(one, [residual.element]) == list(range(first_given, 100))
        assert resumed(one, split.primaries) == list(range(first_given))


def test_split_of_restriction_also_returns_later_elements() -> None:
    with OneStage(reading(Ranges(), range(5))) as one:
        answers = split_while(one, 230, 0.0, 5)
        one.run(one.inputs())
        assert seen == list(range(231))
        (split,) = answers
        assert (split.last_primary, split.first_residual) == (1, 3)
        assert resumed(one, [residual.element for residual in split.residuals]) == list(
            range(231, 300)
        )


def test_split_with_large_fraction_leaves_restriction_in_process_unsplit() -> None:
    with OneStage(reading(Ranges(), range(5))) as one:
        answers = split_while(one, 230, 0.5, 5)
        one.run(one.inputs())
        assert answers == [BundleSplit(3, 4)]
        assert seen == list(range(400))


def test_restriction_is_split_until_exhausted() -> None:
    with OneStage(reading(Ranges())) as one:
        first = split_while(one, 10, 0.5, 1)
        second = split_while(one, 20, 0.0, 1)
        third = []
        hooks[19] = lambda: third.append(run_in_thread(lambda: one.stage.split(0.99, 1)))
        one.run(one.inputs())
        assert seen == list(range(21))
        given_away: list[int] = []
        for (split,) in (second, third, first):
            assert (split.last_primary, split.first_residual) == (-1, 1)
            given_away += resumed(one, [residual.element for residual in split.residuals])
        assert given_away == list(range(21, 100))


def test_last_position_of_restriction_cannot_be_split_off() -> None:
    with OneStage(reading(Ranges())) as one:
        answers = split_while(one, 99, 0.0, 1)
        one.run(one.inputs())
        assert answers == [None]
        assert seen == list(range(100))


def test_restriction_with_unsplittable_tracker_is_not_split() -> None:
    with OneStage(reading(WithUnsplittable(), range(5))) as one:
        answers = split_while(one, 230, 0.0, 5)
        progress = []
        hooks[250] = lambda: progress.append(run_in_thread(one.stage.get_progress).processed)
        one.run(one.inputs())
        assert answers == [BundleSplit(2, 3)]
        assert progress == [2]
        assert seen == list(range(300))


@pytest.mark.parametrize(
    ("provider", "error"), [(WithBroken(), "ValueError"), (WithExiting(), "SystemExit")]
)
def test_tracker_that_raises_in_split_fails_its_bundle(
    provider: RestrictionProvider, error: str
) -> None:
    with OneStage(reading(provider, range(5))) as one:
        answers = split_while(one, 230, 0.0, 5)
        with pytest.raises(BundleError, match=f"{error}: half way through") as failed:
            one.run(one.inputs())
        assert "Read" in failed.value.transform
        assert "in try_split" in failed.value.trace
        assert answers == [None]
        seen.clear()
        hooks.clear()
        one.run(one.inputs())
        assert seen == list(range(500))
    warnings = [record for record in one.logs.records if "returned no progress" in record.message]
    assert warnings


def test_progress_within_restriction_is_reported() -> None:
    with OneStage(reading(Ranges(), range(5))) as one:
        progress = []
        for number in (0, 49, 250, 499):
            hooks[number] = lambda: progress.append(run_in_thread(one.stage.get_progress).processed)
        one.run(one.inputs())
        assert progress == pytest.approx([0.0, 0.49, 2.5, 4.99])


class Splitter(threading.Thread):
    """A thread that splits the running bundle repeatedly until its end."""

    def __init__(self, one: OneStage, elements: int, choose: random.Random) -> None:
        super().__init__(daemon=True)
        self._one, self._elements, self._choose = one, elements, choose
        self._over = threading.Event()
        self.answers: list[BundleSplit] = []

    def run(self) -> None:
        while not self._over.is_set():
            answer = self._one.stage.split(self._choose.choice([0.0, 0.3, 0.9]), self._elements)
            if answer is not None:
                self.answers.append(answer)
            time.sleep(self._choose.choice([1e-4, 1e-3, 1e-2]))

    def end(self) -> list[BundleSplit]:
        self._over.set()
        self.join(20)
        assert not self.is_alive()
        return self.answers


@pytest.mark.parametrize("seed", range(5))
def test_random_splits_process_each_position_once(seed: int) -> None:
    choose = random.Random(seed)
    splits: list[BundleSplit] = []
    with OneStage(reading(Ranges(), range(8))) as one:
        hooks.update(dict.fromkeys(range(800), lambda: time.sleep(1e-5)))
        waiting = one.elements()
        bundles = 0
        while waiting:
            bundles += 1
            assert bundles < 1000
            count = choose.randint(1, len(waiting))
            elements, waiting = waiting[:count], waiting[count:]
            splitter = Splitter(one, count, random.Random(seed * 1000 + bundles))
            splitter.start()
            one.run([ElementChunk(count, b"".join(elements))])
            answers = splitter.end()
            firsts = [answer.first_residual for answer in answers]
            assert firsts == sorted(firsts, reverse=True)
            if firsts:
                waiting += elements[firsts[-1] :]
            waiting += [residual.element for split in answers for residual in split.residuals]
            splits += answers
    assert sorted(seen) == list(range(800))
    assert any(split.residuals for split in splits)
