"""Tests that a new side-input value is visible within seconds, even to one endless bundle."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import GlobalWindows
from jobs import Pipelines
from offsets import Offsets
from waiting import wait_until

EVERY_SECONDS = 0.02
VALUES = 5
VALUE_SECONDS = 1.0


class Endless(beam.DoFn):
    """Numbers at a steady rate, which never defers the rest of them."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterable[int]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            time.sleep(EVERY_SECONDS)
            yield number
            number += 1


@pytest.mark.parametrize(
    "combined",
    [
        pytest.param(False, id="as it is", marks=pytest.mark.slow_in("embedded")),
        pytest.param(True, id="combined", marks=pytest.mark.slow_in("LOOPBACK")),
    ],
)
def test_updated_side_input_value_is_seen_within_seconds(
    pipelines: Pipelines, tmp_path: Path, limit: Callable[[float], float], *, combined: bool
) -> None:
    log = tmp_path / "log"

    def note(number: int, made_at: float) -> None:
        with log.open("a") as file:
            file.write(f"{made_at} {time.time()}\n")

    def delays() -> list[float]:
        """Returns the delay from the creation of each value to its first use, without the start."""
        first: dict[str, float] = {}
        for line in log.read_text().splitlines() if log.exists() else ():
            made_at, seen_at = line.split()
            first.setdefault(made_at, float(seen_at))
        return [seen_at - float(made_at) for made_at, seen_at in sorted(first.items())][3:]

    pipeline = pipelines.new("--streaming")
    values = (
        pipeline
        | PeriodicImpulse(fire_interval=VALUE_SECONDS)
        | beam.Map(lambda _: time.time())
        | beam.WindowInto(
            GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
    )
    if combined:
        values |= beam.CombineGlobally(lambda times: max(times, default=0.0)).without_defaults()
    numbers = pipeline | beam.Create([10**9]) | beam.ParDo(Endless())
    numbers | beam.Map(note, beam.pvalue.AsSingleton(values))
    job = pipelines.job(pipeline)
    wait_until(lambda: len(delays()) >= VALUES, 60, lambda: f"{VALUES} values: {delays()}")
    job.cancel_and_measure()
    # The next value is made after VALUE_SECONDS.
    assert statistics.median(delays()) < limit(VALUE_SECONDS), delays()
