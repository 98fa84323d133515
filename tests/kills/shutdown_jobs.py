"""User code that waits in each state of a worker process, for tests that kill the process there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.utils.timestamp import Duration
from offsets import Offsets

SECONDS = 600.0


def note_and_wait(folder: Path, name: str) -> None:
    """Notes the process in a file, and waits; does nothing if the file exists, so that later attempts pass."""
    file = folder / name
    try:
        with file.open("x") as new:
            new.write(str(os.getpid()))
    except FileExistsError:
        return
    time.sleep(SECONDS)


class WaitOnce(beam.DoFn):
    """DoFn that waits in a method of the first instance that reaches it.

    Args:
        folder: folder in which the DoFn records its process.
        where: name of the method.
        seconds: duration of each earlier element. The duration decides whether the scheduler loop
            of a worker runs the bundle.
    """

    def __init__(self, folder: Path, where: str, seconds: float = 0.0) -> None:
        self._folder = folder
        self._where = where
        self._seconds = seconds

    def process(self, element: int) -> Iterator[int]:
        time.sleep(self._seconds)
        if self._where == "process":
            note_and_wait(self._folder, "process")
        yield element

    def teardown(self) -> None:
        if self._where == "teardown":
            note_and_wait(self._folder, "teardown")


class DeferRest(beam.DoFn):
    """DoFn that records its process, and defers the rest of its element for ten minutes. The lane
    (worker slot) is idle until then.

    Args:
        folder: folder in which the DoFn records its process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[int]:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder(Duration.of(SECONDS))
            (self._folder / "idle").write_text(str(os.getpid()))


def batch(pipeline: beam.Pipeline, step: beam.DoFn) -> None:
    """Builds a pipeline of two stages, of which the second stage waits."""
    _ = pipeline | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(step)
