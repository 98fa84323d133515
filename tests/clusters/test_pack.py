"""Tests that executors on machines with only Java and Spark get Python and all packages from the archive of ``pack``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import attrs
import pytest
from apache_beam.metrics import Metrics
from beam_runner_model.jobs import JobState
from cluster_site import Site, Store
from job_server import PROGRAM, job_server
from jobs import Pipelines
from machines import Layout, Network
from spark_machines import spark_machines

_COUNT = 10_000
_KEYS = 97
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bare(lines: Network, layout: Layout, store: Store) -> Iterator[Site]:
    """Yields a cluster whose workers see neither this checkout nor any of its Python environments."""
    hidden = {_ROOT, *map(Path, (sys.prefix, sys.base_prefix))}
    outer = [
        one for one in hidden if not any(one != it and one.is_relative_to(it) for it in hidden)
    ]
    empty = attrs.evolve(layout, hidden=outer)
    with spark_machines(lines, empty, store.environment, workers=1, kind="bare-") as spark:
        yield Site(lines, empty, store, spark)


class Where(beam.DoFn):
    """DoFn that counts groups, and groups that used packages from outside of the archive."""

    def process(self, group: tuple[int, list[int]]) -> None:
        import beam_spark_executor
        import pyarrow

        files = (str(beam.__file__), str(beam_spark_executor.__file__), str(pyarrow.__file__))
        own = f"{os.sep}environment{os.sep}"
        elsewhere = [file for file in (sys.executable, *files) if own not in file]
        Metrics.counter("pack", "groups").inc()
        Metrics.counter("pack", "values").inc(len(list(group[1])))
        Metrics.counter("pack", "elsewhere").inc(len(elsewhere))


@pytest.mark.timeout(1200, func_only=True)
def test_executors_run_with_the_packed_environment_alone(bare: Site, tmp_path: Path) -> None:
    archive = bare.layout.private / "packed.tar.gz"
    packed = subprocess.run(
        [sys.executable, *PROGRAM, "pack", "-o", archive],
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, packed.stderr
    flags = (*bare.flags("packed"), *packed.stdout.split())
    print(f"{archive.stat().st_size / 1e6:,.0f} MB are packed", flush=True)
    with job_server(tmp_path, *flags, environment=bare.environment) as server:
        pipelines = Pipelines(server.address, "embedded", [])
        pipeline = pipelines.new()
        _ = (
            pipeline
            | beam.Create(range(_COUNT))
            | beam.Reshuffle()
            | beam.Map(lambda number: (number % _KEYS, number))
            | beam.GroupByKey()
            | beam.ParDo(Where())
        )
        job = pipelines.job(pipeline)
        assert job.wait(400) is JobState.DONE, [m.text for m in job.messages()][-3:]
        found = {name: job.counter(name) for name in ("groups", "values", "elsewhere")}
        assert found == {"groups": _KEYS, "values": _COUNT, "elsewhere": 0}
