"""Tests of bounded and unbounded pipelines on machines that share only a store."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from beam_jobs import TakeTime
from beam_runner_model.jobs import JobState
from cluster_site import Site
from crash_points import check, submit
from jobs import Job, Pipelines
from lives import Lives
from s3_machine import BUCKET
from victims import Victim, bounded, unbounded

_VALUE = 1000
"""Bytes of a value."""
_PIECE = 1000
"""Values that are made at once."""
_KEYS = 997
_SMALL = 200_000
"""Elements of a few bytes."""


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_elements_arrive_exactly_once_on_a_cluster(pipelines: Pipelines, victim: Victim) -> None:
    check(submit(pipelines, victim, 600, Path("/nowhere")), 600)


@pytest.mark.usefixtures("of_s3")
@pytest.mark.timeout(600, func_only=True)
def test_words_are_counted_from_object_store_to_object_store(
    pipelines: Pipelines, site: Site
) -> None:
    texts = [Path(sys.modules[name].__file__ or "").read_text() for name in ("re", "os", "typing")]
    place = f"words/{pipelines.environment}"
    for number, text in enumerate(texts):
        site.store.put(f"{place}/text-{number}", text.encode())
    reached = [f"--s3_endpoint_url={site.store.url}"]
    for option, variable in {
        "s3_access_key_id": "AWS_ACCESS_KEY_ID",
        "s3_secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "s3_region_name": "AWS_REGION",
    }.items():
        reached.append(f"--{option}={site.store.environment[variable]}")
    pipeline = pipelines.new(*reached)
    _ = (
        pipeline
        | beam.io.ReadFromText(f"s3://{BUCKET}/{place}/text-*")
        | beam.FlatMap(lambda line: re.findall(r"\w+", line))
        | beam.combiners.Count.PerElement()
        | beam.MapTuple(lambda word, count: f"{word}: {count}")
        | beam.io.WriteToText(f"s3://{BUCKET}/{place}/counts", num_shards=3)
    )
    job = pipelines.job(pipeline)
    assert job.wait(200) is JobState.DONE, [m.text for m in job.messages()][-3:]
    files = [name for name in site.store.names(f"{place}/") if "counts-" in name]
    assert len(files) == 3
    lines = [line for name in files for line in site.store.get(name).decode().splitlines()]
    words = Counter(word for text in texts for word in re.findall(r"\w+", text))
    assert Counter(lines) == Counter(f"{word}: {count}" for word, count in words.items())


class Make(beam.DoFn):
    """DoFn that emits values of equal size with keys and a known sum."""

    def process(self, piece: int) -> Iterator[tuple[int, bytes]]:
        for number in range(piece * _PIECE, (piece + 1) * _PIECE):
            yield number % _KEYS, number.to_bytes(8, "big") * (_VALUE // 8)


class Add(beam.DoFn):
    """Counts keys, values, and adds values up."""

    def __init__(self) -> None:
        self._keys = Metrics.counter("grouped", "keys")
        self._values = Metrics.counter("grouped", "values")
        self._sum = Metrics.counter("grouped", "sum")

    def process(self, group: tuple[int, Iterable[bytes]]) -> None:
        self._keys.inc()
        count = total = 0
        for value in group[1]:
            count += 1
            total += int.from_bytes(value[:8], "big")
        self._values.inc(count)
        self._sum.inc(total)


@pytest.mark.timeout(600, func_only=True)
def test_grouping_of_many_small_elements_on_a_cluster_gives_exact_results(
    embedded: Pipelines,
) -> None:
    pipeline = embedded.new()
    _ = (
        pipeline
        | beam.Create(range(_SMALL))
        | beam.Reshuffle()
        | beam.Map(lambda number: (number % _KEYS, number.to_bytes(8, "big")))
        | beam.GroupByKey()
        | beam.ParDo(Add())
    )
    job = embedded.job(pipeline)
    assert job.wait(500) is JobState.DONE, [m.text for m in job.messages()][-3:]
    assert _found(job) == {"keys": _KEYS, "values": _SMALL, "sum": sum(range(_SMALL))}


@pytest.mark.timeout(300, func_only=True)
def test_section_started_on_one_machine_spreads_to_all_machines(running: Lives) -> None:
    """The first task sends little data, so waiting for data locality isn't worthwhile."""
    sections = Pipelines(running.address, "embedded", ["--beam_spark_bulk=always"])
    pipeline = sections.new()
    _ = pipeline | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(TakeTime(0.5))
    job = sections.job(pipeline)
    assert job.wait(200) is JobState.DONE, [m.text for m in job.messages()][-3:]
    assert all(job.counter(f"worker-{number}") for number in (1, 2))


@pytest.mark.timeout(7200, func_only=True)
def test_grouping_of_gigabytes_on_a_cluster_gives_exact_results(
    embedded: Pipelines, request: pytest.FixtureRequest
) -> None:
    pieces = max(1, int(request.config.getoption("--gigabytes") * 1e9 / _VALUE / _PIECE))
    pipeline = embedded.new()
    _ = (
        pipeline
        | beam.Create(range(pieces))
        | beam.Reshuffle()
        | beam.ParDo(Make()).with_output_types(tuple[int, bytes])
        | beam.GroupByKey()
        | beam.ParDo(Add())
    )
    job = embedded.job(pipeline)
    assert job.wait(7000) is JobState.DONE, [m.text for m in job.messages()][-3:]
    count = pieces * _PIECE
    assert _found(job) == {"keys": min(count, _KEYS), "values": count, "sum": sum(range(count))}


def _found(job: Job) -> dict[str, int]:
    return {name: job.counter(name) for name in ("keys", "values", "sum")}
