"""Tests on machines without shared storage: data of bounded jobs crosses Spark's shuffle, and not the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import beam_jobs
import cost_work
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from beam_runner_model.jobs import JobState
from cluster_site import Site
from job_server import JobServerProcess, job_server
from jobs import Pipelines

_GROUPINGS = 5
_MOST_SHARE = 0.01
"""Maximum traffic, as a share of the shuffled bytes."""


def chain(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Builds five consecutive groupings, the last of which has the groups of the first."""
    values = beam_jobs.values(pipeline, range(pieces))
    for number in range(_GROUPINGS - 1):
        grouped = values | f"group {number}" >> beam.GroupByKey()
        values = grouped | f"apart {number}" >> beam.FlatMap(cost_work.apart)
    return values | "last" >> beam.GroupByKey() | beam.Map(cost_work.numbers)


class Numbered(beam.DoFn):
    """Stateful DoFn that counts the values of each key, and emits pairs of one and a number."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[int, bytes], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[int, int]]:
        seen.write((seen.read() or 0) + 1)
        yield cost_work.as_one(pair)


def stateful(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Values by their keys, in state."""
    return beam_jobs.values(pipeline, range(pieces)) | beam.ParDo(Numbered())


_JOBS = {**beam_jobs.JOBS, "chain": chain, "stateful": stateful}
_PARTS = {**beam_jobs.PARTS, "chain": 8, "stateful": 8}
_ONCE = (*cost_work.GROUPINGS, "join", "deal", "stateful")
_SHUFFLED = {**dict.fromkeys(_ONCE, 1), "chain": _GROUPINGS}
"""Number of shuffles of each value by job; combines shuffle hardly any bytes."""


@pytest.fixture(scope="module")
def bare(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServerProcess]:
    """Yields a server of the cluster without a data location."""
    flags = [flag for flag in site.flags("none") if not flag.startswith("--data-dir")]
    folder = tmp_path_factory.mktemp("bare")
    with job_server(folder, *flags, environment=site.environment) as server:
        yield server


@pytest.mark.timeout(1800, func_only=True)
@pytest.mark.parametrize("name", _JOBS)
def test_bounded_jobs_on_a_cluster_without_a_store_give_exact_results(
    name: str, bare: JobServerProcess, site: Site, request: pytest.FixtureRequest
) -> None:
    size = request.config.getoption("--gigabytes")
    pieces = beam_jobs.pieces_of(size, _PARTS.get(name, 1))
    before = site.network.traffic()
    found = beam_jobs.run(Pipelines(bare.address, "embedded", []), _JOBS[name], pieces)
    assert found == beam_jobs.EXPECTED.get(name, cost_work.grouped)(pieces)
    passed = site.network.traffic() - before
    shuffled = pieces * cost_work.PIECE * cost_work.VALUE * _SHUFFLED.get(name, 0)
    print(
        f"BARE {name}: {passed / 1e6:.1f} MB of {shuffled / 1e6:.0f} passed the server", flush=True
    )
    if shuffled > 1e9:
        assert passed < _MOST_SHARE * shuffled


def test_features_that_need_a_store_are_refused_by_name_without_a_store(
    bare: JobServerProcess,
) -> None:
    pipelines = Pipelines(bare.address, "embedded", [])
    pipeline = pipelines.new()
    seen = beam.pvalue.AsIter(beam_jobs.values(pipeline, range(20)))
    _ = pipeline | beam.Create([1]) | beam.Map(lambda one, many: one + len(list(many)), seen)
    job = pipelines.job(pipeline)
    assert job.wait(300) is JobState.FAILED
    told = " ".join(message.text for message in job.messages())
    assert re.search(r"bytes exceed the maximum that a bundle can report.*--data-dir", told), told
