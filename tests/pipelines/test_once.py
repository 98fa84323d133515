"""Tests that user code runs once for each element and timer if no failure occurs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import TimestampedValue
from attempts import find_unequal_attempts
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.jobs import JobState, MetricCell
from beam_runner_model.varints import encode_varint
from jobs import Pipelines

KEYS = ("a", "b")
TAGS = [str(number) for number in range(12)]


class Changing(beam.DoFn):
    """DoFn that sets timers with tags. The fifth timer clears the sixth, and the ninth timer moves the
    tenth to the end.

    The DoFn writes its calls to a file outside of the pipeline.
    """

    SET = userstate.TimerSpec("set", TimeDomain.WATERMARK)

    def __init__(self, path: str) -> None:
        self._path = path

    def _write(self, text: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{text}\n".encode())
        os.close(file)

    def process(
        self, pair: tuple[str, int], timer: Any = beam.DoFn.TimerParam(SET)
    ) -> Iterator[str]:
        self._write(f"{pair[0]}")
        for tag in TAGS:
            timer.set(10 + int(tag), dynamic_timer_tag=tag)
        yield pair[0]

    @userstate.on_timer(SET)
    def fire(
        self,
        key: Any = beam.DoFn.KeyParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        timer: Any = beam.DoFn.TimerParam(SET),
    ) -> Iterator[str]:
        self._write(f"{key}{tag}")
        if tag == "4":
            timer.clear(dynamic_timer_tag="5")
        if tag == "8":
            timer.set(30, dynamic_timer_tag="9")
        yield f"{key}{tag}"


@pytest.mark.parametrize("streaming", [False, True])
def test_timers_that_change_other_timers_fire_once(
    everywhere: Pipelines, tmp_path: Path, streaming: bool
) -> None:
    path = tmp_path / "called"
    pairs = [(key, 1) for key in KEYS]
    expected = [*KEYS, *(f"{key}{tag}" for key in KEYS for tag in TAGS if tag != "5")]
    with everywhere.new(*["--streaming"] * streaming) as p:
        if streaming:
            stream = Stream().advance_watermark_to(0)
            for pair in pairs:
                stream = stream.add_elements([TimestampedValue(pair, 1)])
            given = p | stream.advance_watermark_to(20).advance_watermark_to_infinity()
        else:
            given = p | beam.Create(pairs)
        assert_that(given | beam.ParDo(Changing(str(path))), equal_to(expected))
    assert Counter(path.read_text().split()) == Counter(expected)


def test_job_metrics_contain_the_number_of_started_bundles(pipelines: Pipelines) -> None:
    p = pipelines.new()
    grouped = p | beam.Create([(n % 3, n) for n in range(30)]) | beam.GroupByKey()
    grouped | beam.Map(len)
    job = pipelines.job(p)
    assert job.wait() is JobState.DONE
    with JobClient(pipelines.address) as client:
        infos = client.get_metrics(job.job_id).attempted
    counts = {
        (info.urn.split(":")[2], info.labels["STAGE"]): decode_metric_value(info)
        for info in infos
        if info.urn.startswith("beam_spark:stage:bundles_")
    }
    stages = {stage for _, stage in counts}
    assert all(
        counts["bundles_begun", stage] == counts["bundles_committed", stage] > 0 for stage in stages
    )
    assert find_unequal_attempts(infos, whole=True) == []
    assert len(find_unequal_attempts([*infos, *map(_once_more, infos)], whole=True)) == len(stages)


def _once_more(info: MetricCell) -> MetricCell:
    """Returns the same metric, with the count of started bundles increased by one."""
    if "bundles_begun" not in info.urn:
        return info
    return attrs.evolve(info, payload=encode_varint(decode_metric_value(info) + 1))
