"""Tests that a section (several stages in one Spark job) with nondeterministic user code loses and
duplicates no element if processes are killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pytest
from beam_runner_storage.stores.spec import StoreSpec
from jobs import Pipelines, pickle_by_value
from lives import Lives, lives
from plans import make_plan
from processes import parent_process
from rounds import ROUND_SECONDS, rage
from victims import bounded

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/doubles"))

from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.endpoints import make_job_scope
from beam_runner_runtime.channel.messages import BundleReply, JobWork
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer
from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.spark.sections import SparkSectionRunner
from beam_spark_executor.spark.session import RunningSpark, start_spark
from beam_spark_executor.spark.settings import SparkSettings
from section_jobs import SectionJob, texts
from section_runs import SHARDS, order_of

pickle_by_value(__name__)
COUNT = 600
ATTEMPTS = 4
"""As the engine tries a bundle that fails from outside."""
PHASES = ("map", "exchange", "reduce", "second exchange", "last", "end")
CONFS = {
    "as it is": {},
    "unchecked": {
        "spark.shuffle.checksum.enabled": "false",
        "spark.shuffle.detectCorrupt": "false",
        "spark.speculation": "true",
    },
}
"""Spark settings: the defaults; or no corruption checks of Spark, and speculative execution."""
KINDS = ("worker", "worker", "daemon", "java", "server")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_LIMIT = 120


class Steps(beam.DoFn):
    """DoFn that reports its work and sleeps."""

    def __init__(self, folder: Path, phase: str) -> None:
        self._file = folder / phase

    def process(self, element: Any) -> Iterator[Any]:
        with self._file.open("ab") as file:
            file.write(b".")
        time.sleep(0.004)
        yield element


def pipeline(folder: Path) -> Any:
    def build(p: beam.Pipeline) -> None:
        some = p | beam.Create(range(COUNT)) | beam.Reshuffle()
        keyed = some | "keys" >> beam.Map(lambda n: (str(uuid.uuid4()), n))
        grouped = keyed | "map" >> beam.ParDo(Steps(folder, "map")) | beam.GroupByKey()
        reduced = grouped | "reduce" >> beam.ParDo(Steps(folder, "reduce"))
        again = reduced | "keys again" >> beam.Map(lambda kv: (uuid.uuid4().hex, next(iter(kv[1]))))
        ended = again | "group again" >> beam.GroupByKey()
        told = ended | "last" >> beam.ParDo(Steps(folder, "last"))
        text = told | "text" >> beam.FlatMap(lambda kv: [f"<{n}>" for n in kv[1]])
        text | "out" >> beam.Reshuffle() | "reader" >> beam.Map(str)

    return build


def progress(folder: Path, phase: str) -> int:
    file = folder / phase
    return file.stat().st_size if file.exists() else 0


def is_at(folder: Path, phase: str, share: float) -> bool:
    """Returns True if a section has reached a step, in any attempt."""
    if phase == "exchange":
        return progress(folder, "map") >= COUNT and progress(folder, "reduce") > 0
    if phase == "second exchange":
        return progress(folder, "reduce") >= COUNT and progress(folder, "last") > 0
    if phase == "end":
        return progress(folder, "last") >= COUNT
    return progress(folder, phase) > share * COUNT


def executors() -> list[int]:
    """Returns the executors of this process's Spark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_executor = _EXECUTOR in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        above = int(folder.name)
        while is_executor and above not in (0, os.getpid()):
            above = parent_process(above)
        if is_executor and above == os.getpid():
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module", params=CONFS)
def spark(request: pytest.FixtureRequest) -> Iterator[RunningSpark]:
    conf = CONFS[request.param]
    running = start_spark(SparkSettings(master="local-cluster[2,2,1024]", conf=conf))
    yield running
    running.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("phase", PHASES)
def test_section_of_stages_loses_and_duplicates_no_element_if_processes_are_killed(
    phase: str, seed: int, spark: RunningSpark, tmp_path: Path
) -> None:
    chance = random.Random(f"{seed} {phase}")
    share = chance.uniform(0.05, 0.9)
    pools = WorkerPools(spark.context)
    slot = pools.acquire_slot()
    jobs: dict[str, SectionJob] = {}
    server = ChannelServer(ChannelAddress(), jobs.get, lambda number: None)
    server.start()
    job_id = f"kills-{seed}-{phase.replace(' ', '-')}"
    plan = make_plan(pipeline(tmp_path))
    within = [name for name, stage in plan.stages.items() if "reader" not in stage.spec.name]
    runner = SparkSectionRunner(
        spark.context,
        pools,
        slot,
        server.endpoints.make_endpoint(make_job_scope(job_id)),
        job_id,
        plan,
        SHARDS,
    )
    jobs[job_id] = SectionJob(JobWork(plan, SHARDS, StoreSpec(str(tmp_path))), runner)
    order = order_of(plan, within)
    ends: list[Any] = []

    def attempts() -> None:
        for attempt in range(1, ATTEMPTS + 1):
            bundle = attrs.evolve(order.bundle, attempt=attempt)
            ends.append(
                runner.run(attrs.evolve(order, bundle=bundle, name=f"1-7-{attempt}"), phase)
            )
            if not isinstance(ends[-1], BundleFailure):
                return

    thread = threading.Thread(target=attempts)
    thread.start()
    deadline = time.monotonic() + _LIMIT
    while not is_at(tmp_path, phase, share):
        assert time.monotonic() < deadline and thread.is_alive(), ends
        time.sleep(0.01)
    victim = chance.choice(sorted(executors()))
    os.kill(victim, signal.SIGKILL)
    thread.join(2 * _LIMIT)
    runs = {name: progress(tmp_path, name) for name in ("map", "reduce", "last")}
    reasons = [end.reason for end in ends[:-1] if isinstance(end, BundleFailure)]
    told = {"phase": phase, "share": round(share, 2), "seed": seed, "attempts": len(ends)}
    print(f"KILL {json.dumps({**told, 'runs': runs, 'reasons': reasons})}", flush=True)
    jobs[job_id].end()
    server.stop()
    pools.retire_slot(slot)
    assert not thread.is_alive()
    assert isinstance(ends[-1], BundleReply), ends
    found = Counter(texts(tmp_path, ends[-1]))
    assert found == Counter(str(n) for n in range(COUNT))


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
def test_section_of_stages_gives_exact_results_if_servers_and_workers_are_killed(
    temporary: Path,
    tmp_path: Path,
    pipelines_of: Callable[[Lives, str], Pipelines],
    seed: int,
) -> None:
    with lives(temporary, tmp_path / "state", "--bulk=always") as running:
        rage(running, pipelines_of(running, "embedded"), bounded, KINDS, seed)
        if running.count == 1:  # a previous process may have committed it
            assert any("section of " in line for line in running.server.log)
