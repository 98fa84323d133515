"""What a splittable DoFn leaves for later is processed in the same bundle, when it is due."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.timestamp import Duration
from counting import TRACKER
from mini_runner import MiniRunner

calls: list[int] = []


class Deferring(beam.DoFn):
    def process(self, element: Any, tracker: Any = TRACKER) -> Iterator[int]:
        position = tracker.current_restriction().start
        calls.append(position)
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder(Duration.of(0.01))


def test_what_a_splittable_dofn_defers_is_processed_in_the_bundle() -> None:
    pipeline = beam.Pipeline()
    deferred = pipeline | beam.Impulse() | "SDF" >> beam.ParDo(Deferring())
    assert deferred | beam.Map(lambda i: (i, i)) | beam.GroupByKey()
    start = time.monotonic()
    runner = MiniRunner(pipeline).run()
    assert calls == [0, 1, 2, 3, 4]
    assert time.monotonic() - start >= 0.04
    (chunk,) = next(chunks for name, chunks in runner.buffers.items() if name.startswith(b"group:"))
    assert chunk.count == 5
