"""Calls of the splittable DoFns as a runner makes them, with the checkpoint of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import (
    RestrictionTrackerView,
    ThreadsafeRestrictionTracker,
    ThreadsafeWatermarkEstimator,
)
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.kafka.restrictions import OffsetTracker, Restriction


class RecordingView(RestrictionTrackerView):
    """Tracker of user code that records the delay that user code asks for. Beam subtracts the time that
    has passed since, which depends on the machine.
    """

    delay: Duration | Timestamp | None = None

    def defer_remainder(self, deferred_time: Duration | Timestamp | None = None) -> None:
        self.delay = deferred_time
        super().defer_remainder(deferred_time)


@attrs.define
class Bundle:
    """Bundle with one restriction.

    Attributes:
        restriction: the restriction.
        watermark: the watermark before the bundle.
        outputs: the emitted values with their timestamps.
        residual: the rest, after the bundle.
        delay: the seconds before the rest resumes, as user code asked for.
        callbacks: the finalization callbacks.
    """

    restriction: Restriction
    watermark: Timestamp | None = None
    outputs: list[Any] = attrs.field(factory=list)
    residual: Restriction | None = None
    delay: float = 0.0
    callbacks: list[Callable[[], None]] = attrs.field(factory=list)

    def run(
        self,
        process: Callable[[Any, Any], Iterator[Any]],
        after: int | None = None,
        fraction: float = 0.0,
    ) -> Bundle:
        """Runs the bundle, and splits it after a number of outputs; returns the bundle."""
        tracker = ThreadsafeRestrictionTracker(OffsetTracker(self.restriction))
        estimator = ThreadsafeWatermarkEstimator(ManualWatermarkEstimator(self.watermark))
        view = RecordingView(tracker)
        for output in process(view, estimator):
            self.outputs.append(output)
            if len(self.outputs) == after and (split := tracker.try_split(fraction)):
                self.residual = split[1]
                self.watermark = estimator.current_watermark()
        tracker.check_done()
        if (deferred := tracker.deferred_status()) is not None:
            assert self.residual is None
            self.residual = deferred[0]
            self.delay = view.delay.micros / 1e6 if isinstance(view.delay, Duration) else 0.0
        if self.residual is None or after is None:
            self.watermark = estimator.current_watermark()
        return self

    def register(self, callback: Callable[[], None]) -> None:
        """Registers a finalization callback, as Beam's parameter does."""
        self.callbacks.append(callback)

    def resume(self) -> Bundle:
        """Returns a bundle for the rest."""
        assert self.residual is not None
        return Bundle(self.residual, self.watermark)

    @property
    def values(self) -> list[bytes]:
        """Values of the emitted records."""
        return [one.value.value for one in self.outputs]
