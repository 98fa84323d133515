"""Tests that deferred work of a splittable DoFn is returned by the bundle, and becomes input of a later bundle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from mini_runner import MiniRunner
from one_restriction import TRACKER

calls: list[int] = []
WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


class Deferring(beam.DoFn):
    """A DoFn that emits one number and defers the rest."""

    def __init__(self, delay: Duration | Timestamp | None) -> None:
        self._delay = delay

    def process(self, element: Any, tracker: Any = TRACKER) -> Iterator[int]:
        position = tracker.current_restriction().start
        calls.append(position)
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder(self._delay)


def run(do_fn: beam.DoFn) -> tuple[MiniRunner, list[Any]]:
    """Runs the pipeline to its end, and returns the residuals of all bundles."""
    pipeline = beam.Pipeline()
    deferred = pipeline | beam.Impulse() | "SDF" >> beam.ParDo(do_fn)
    assert deferred | beam.Map(lambda i: (i, i)) | beam.GroupByKey()
    runner = MiniRunner(pipeline).run()
    return runner, [residual for _, result in runner.results for residual in result.residuals]


def test_deferred_restriction_resumes_at_its_last_position() -> None:
    start = time.monotonic()
    runner, residuals = run(Deferring(Duration.of(0.5)))
    assert calls == [0, 1, 2, 3, 4]
    assert time.monotonic() - start >= 4 * 0.5
    assert len(residuals) == 4
    assert all(0 < residual.delay_ms <= 500 for residual in residuals)
    assert all(residual.watermark is None for residual in residuals)
    chunks = next(chunks for name, chunks in runner.buffers.items() if name.startswith(b"group:"))
    assert sum(chunk.count for chunk in chunks) == 5


@pytest.mark.parametrize("delay", [None, Duration.of(0), Timestamp(1)])
def test_restriction_deferred_without_delay_resumes_immediately(
    delay: Duration | Timestamp | None,
) -> None:
    _, residuals = run(Deferring(delay))
    assert calls == [0, 1, 2, 3, 4]
    assert [residual.delay_ms for residual in residuals] == [0] * 4


class WithWatermark(beam.DoFn):
    """A DoFn that sets its watermark to this number of microseconds, and defers the rest."""

    def __init__(self, watermark: int) -> None:
        self._watermark = watermark

    def process(
        self, element: Any, tracker: Any = TRACKER, watermark: Any = WATERMARK
    ) -> Iterator[Any]:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            watermark.set_watermark(Timestamp(micros=self._watermark))
            yield window.TimestampedValue(position, Timestamp(micros=self._watermark))
            tracker.defer_remainder()


@pytest.mark.parametrize(
    ("micros", "millis"),
    [
        (0, 0),
        (1_999, 1),
        (-1, -1),
        (-1_001, -2),
        (MIN_TIMESTAMP.micros, MIN_TIMESTAMP.micros // 1000),
    ],
)
def test_deferred_watermark_is_rounded_down(micros: int, millis: int) -> None:
    _, residuals = run(WithWatermark(micros))
    assert [residual.watermark for residual in residuals] == [millis] * 4
