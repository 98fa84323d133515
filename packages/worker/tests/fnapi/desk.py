"""Splittable DoFns that count through a range, and tools to watch and pause them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Duration, Timestamp


class NumberRangeProvider(RestrictionProvider):
    """A provider for elements that are numbers: the restriction goes from 0 to the number."""

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


TRACKER = beam.DoFn.RestrictionParam(NumberRangeProvider())
WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Desk:
    """A folder in which a DoFn records its actions, and waits at certain places."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self, *places: object) -> Desk:
        """Makes the DoFn wait at places until a call of :meth:`release_place`."""
        for place in places:
            (self.folder / f"hold {place}").touch()
        return self

    def release_place(self) -> None:
        for path in self.folder.glob("hold *"):
            path.unlink()

    def record_and_wait(self, place: object) -> None:
        """Called by the DoFn: records a place, and waits at held places."""
        (self.folder / "pid").write_text(str(os.getpid()))
        with open(self.folder / "notes", "a") as file:
            file.write(f"{place}\n")
        while (self.folder / f"hold {place}").exists():
            time.sleep(0.005)

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, place: object) -> None:
        deadline = time.monotonic() + 60
        while str(place) not in self.notes():
            assert time.monotonic() < deadline, f"it never came to {place}"
            time.sleep(0.005)


class VisitElements(beam.DoFn):
    """A DoFn that visits each element, which is text in bytes."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def process(self, element: bytes) -> None:
        self.desk.record_and_wait(element.decode())


class CountNumbers(beam.DoFn):
    """A DoFn that visits all numbers below each element as ``element:number``."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def process(self, element: int, tracker: Any = TRACKER) -> Any:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            self.desk.record_and_wait(f"{element}:{number}")
            yield number
            number += 1


class DeferRemainder(beam.DoFn):
    """A DoFn that yields one number of each element, and defers the rest by 1.5 seconds."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = TRACKER,
        estimator: Any = WATERMARK,
    ) -> Any:
        number = tracker.current_restriction().start
        if tracker.try_claim(number):
            estimator.set_watermark(Timestamp(micros=(number - 2) * 1_000_500))
            yield number
            tracker.defer_remainder(Duration(1.5))
