"""Complete job in this process: planned as the server plans it, then run bundle by bundle, without
Spark.

This module suits tests that don't depend on the placement of bundles, such as the maximum size of a
pipeline.
"""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_driver.reports.reporting import format_job_failure
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_engine.scheduler.commands import Bundle, FinishJob, OpenBundles
from beam_runner_engine.scheduler.events import Start
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.jobs import JobSpec
from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.channel.messages import BundleReply, JobWork, RunBundle
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_urns import environments
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.ports import Harness

EMBEDDED, EXTERNAL = "embedded", "EXTERNAL"
SHARDS = 2


@attrs.frozen
class Ran:
    """Result of a job.

    Attributes:
        failure: cause of the failure; empty after success.
        stages: number of fused stages.
        bundles: number of executed bundles.
        seconds: CPU time of this process for the translation and for the run, seconds.
        peak: maximum memory of this process, MB.
    """

    failure: str
    stages: int
    bundles: int
    seconds: tuple[float, float]
    peak: int


def proto_of(build: Callable[[beam.Pipeline], Any], environment: str) -> _protos.Pipeline:
    """Returns the pipeline as Beam's portable runner submits it, without files to stage."""
    named = {EMBEDDED: "beam:env:embedded_python:v1", EXTERNAL: "EXTERNAL"}[environment]
    flags = [f"--environment_type={named}"]
    if environment == EXTERNAL:
        flags.append("--environment_config=localhost:1")
    options = PipelineOptions(flags)
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    proto: _protos.Pipeline = PortableRunner.get_proto_pipeline(pipeline, options)
    return proto


def run(proto: _protos.Pipeline, folder: Path) -> Ran:
    """Runs a pipeline to its end. Embedded pipelines change global state of Beam in this process."""
    began = time.process_time()
    address, pool = BeamFnExternalWorkerPoolServicer.start()
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
        if environment.urn == environments.EXTERNAL:
            payload = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
            payload.endpoint.url = address
            environment.payload = payload.SerializeToString()
    spec = JobSpec("job-1", "job", proto.SerializeToString(), {}, "{}", {}, "localhost:1")
    plan = plan_job(spec)
    translated = time.process_time()
    job = _Job(plan, folder)
    try:
        failure = job.run()
    finally:
        job.close()
        pool.stop(0)
    ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    seconds = (translated - began, ended - translated)
    return Ran(failure, len(plan.stages), job.bundles, seconds, peak)


class _Job:
    """Ledger (committed state) of a job, and the SDK harnesses that run its bundles."""

    def __init__(self, plan: JobPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._stores = ShardStores(folder)
        self._work = JobWork(plan, SHARDS, StoreSpec(str(folder)))
        self._fnapi = FnApiServer(plan.context, self, self)
        self._harnesses: dict[str, Harness] = {}
        self._stages: dict[str, tuple[StageContext, BundleSideInputs, Any]] = {}
        self.bundles = 0

    def run(self) -> str:
        ledger = JobLedger(self._plan, SHARDS, Limits(parallelism=1), DefaultPolicy(spreads=False))
        waiting: deque[Bundle] = deque()
        entry: Any = Start(0, make_root_outputs(self._plan))
        while True:
            for command in ledger.apply_journal_entry(entry):
                if isinstance(command, OpenBundles):
                    waiting.extend(command.bundles)
            if ledger.end is not None:
                break
            bundle = waiting.popleft()
            reply = self._run(
                RunBundle(
                    bundle,
                    f"1-{bundle.number}-{bundle.attempt}",
                    ledger.list_state_segments(bundle),
                )
            )
            entry = reply if isinstance(reply, BundleReply) else reply.to_event()
        if isinstance(ledger.end, FinishJob):
            return ""
        return format_job_failure(ledger.end, ledger.last_failure, self._plan)

    def _run(self, order: RunBundle) -> Any:
        self.bundles += 1
        work, side_inputs, harness = self._stage(order.bundle.stage)
        side_inputs.set_visible_data(order.bundle.side_inputs)
        return LocalBundle(work, order, harness, self._stores, FolderData(self._folder)).run()

    def _stage(self, stage_id: str) -> tuple[StageContext, BundleSideInputs, Any]:
        if stage_id not in self._stages:
            stage = self._plan.stages[stage_id]
            side_inputs = BundleSideInputs(stage.side_inputs, self._folder)
            harness = self._harness(stage.embedded, stage.spec.environment_id)
            work = StageContext.create_for_stage(self._work, stage_id)
            self._stages[stage_id] = (
                work,
                side_inputs,
                harness.get_stage_harness(stage.spec, side_inputs),
            )
        return self._stages[stage_id]

    def _harness(self, embedded: bool, environment_id: str) -> Harness:
        if environment_id not in self._harnesses:
            self._harnesses[environment_id] = (
                EmbeddedHarness(self._plan.context, self, self)
                if embedded
                else self._fnapi.get_harness(environment_id)
            )
        return self._harnesses[environment_id]

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def log_records(self, records: Iterable[LogRecord]) -> None:
        pass

    def close(self) -> None:
        for harness in self._harnesses.values():
            harness.close()
        self._fnapi.close()
