"""Comparison of job costs on the cluster with handwritten RDD jobs: store requests, store bytes and CPU seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import beam_jobs
import cost_work
import pytest
from cluster_site import Site
from job_server import UNCHECKED, job_server
from jobs import Pipelines
from processes import cpu_seconds, find_marked_processes

pytestmark = pytest.mark.usefixtures("of_s3")
_MARK = "BEAM_TEST_BY_HAND"
_ROUNDS = 2
_QUIET = "spark.ui.showConsoleProgress=false"
_WAYS = {"store": "never", "shuffle": "always"}
"""Data paths of bounded jobs, and the value of ``--beam_spark_bulk`` that selects each path."""

Run = Callable[[str, int], tuple[int, int]]
"""Function that runs a job by name and size, and returns its result."""


@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize("name", beam_jobs.JOBS)
def test_job_cost_is_compared_with_handwritten_spark_code(
    site: Site, tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    size = request.config.getoption("--gigabytes")
    environment = {**site.environment, **UNCHECKED}
    with job_server(tmp_path, *site.flags("costs"), environment=environment) as server:
        for way, bulk in _WAYS.items():
            pipelines = Pipelines(server.address, "embedded", [f"--beam_spark_bulk={bulk}"])
            run = _by_beam(pipelines)
            _measure(site, name, way, run, size, lambda: server.processes())
    with _by_hand(site) as (run, pids):
        _measure(site, name, "by hand", run, size, pids)


def _measure(
    site: Site, name: str, way: str, run: Run, gigabytes: float, pids: Callable[[], dict[int, str]]
) -> None:
    expected = beam_jobs.EXPECTED[name]
    assert run(name, beam_jobs.LEAST) == expected(beam_jobs.LEAST)
    size = beam_jobs.pieces_of(gigabytes, beam_jobs.PARTS.get(name, 1))
    for _ in range(_ROUNDS):
        before = _Meters.read(site, pids())
        assert run(name, size) == expected(size)
        used = _Meters.read(site, pids()).since(before)
        print(f"COST {name} {way}, {size:,} pieces: {used}", flush=True)


def _by_beam(pipelines: Pipelines) -> Run:
    return lambda name, pieces: beam_jobs.run(pipelines, beam_jobs.JOBS[name], pieces)


@contextmanager
def _by_hand(site: Site) -> Iterator[tuple[Run, Callable[[], dict[int, str]]]]:
    program = Path(__file__).with_name("rdd_jobs.py")
    assert cost_work.__file__ is not None
    process = subprocess.Popen(
        [sys.executable, program, cost_work.__file__, *site.properties, _QUIET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **site.environment, _MARK: str(site.layout.private)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asks, answers = process.stdin, process.stdout

    def run(name: str, pieces: int) -> tuple[int, int]:
        print(name, pieces, file=asks, flush=True)
        first, second = json.loads(answers.readline())
        return first, second

    try:
        yield run, lambda: find_marked_processes(_MARK, str(site.layout.private))
        asks.close()
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


@attrs.frozen
class _Meters:
    """Resource use until a time, or between two times."""

    seconds: float
    workers: float
    driver: float
    store: float
    received: int
    sent: int
    requests: dict[str, int]

    @classmethod
    def read(cls, site: Site, driver: dict[int, str]) -> _Meters:
        received, sent = site.store.machine.traffic()
        return cls(
            time.monotonic(),
            sum(machine.cpu_seconds() for machine in site.spark.workers),
            cpu_seconds(driver),
            site.store.machine.cpu_seconds(),
            received,
            sent,
            dict(site.store.requests()),
        )

    def since(self, before: _Meters) -> str:
        """Returns the use since an earlier reading."""
        asked = {
            name: count - before.requests.get(name, 0)
            for name, count in self.requests.items()
            if count > before.requests.get(name, 0)
        }
        return (
            f"wall {self.seconds - before.seconds:.1f} s, CPU of workers {self.workers - before.workers:.1f},"
            f" of the driver {self.driver - before.driver:.1f}, of the store {self.store - before.store:.1f} s; the store"
            f" received {(self.received - before.received) / 1e6:.1f}, sent {(self.sent - before.sent) / 1e6:.1f} MB, was"
            f" asked {asked}"
        )
