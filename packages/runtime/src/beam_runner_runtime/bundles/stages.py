"""Stages that a worker process runs. Each stage is built once (harness, coders, side inputs), for its first bundle."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import attrs
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_model.buffers import BufferPlan, MergingPlan
from beam_runner_planner.plan import StagePlan
from beam_runner_worker.fnapi.harness import HarnessLimits
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.ports import Harness, StageHarness

from beam_runner_runtime.bundles.merging import SdkMerger
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.bundles.temporary import redirect_temporary_files
from beam_runner_runtime.bundles.truncation import InputTruncator
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.messages import ExternalWorkerStarted, JobWork, LogBatch
from beam_runner_runtime.channel.sdk_stacks import collect_harness_stacks
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.memory import compute_table_budget
from beam_runner_runtime.shutdown.limits import LIMITS


@attrs.frozen
class BuiltStage:
    """Stage that is ready to run bundles.

    Attributes:
        work: data shared by all bundles of the stage.
        merger: merger of the input's windows; None if the engine merges them.
        truncation: truncates restrictions for a drain; None if the stage doesn't process
            restrictions.
    """

    work: StageContext
    side_inputs: BundleSideInputs
    harness: StageHarness
    merger: SdkMerger | None
    truncation: InputTruncator | None


class JobStages:
    """Stages of a job in one worker process.

    All methods but `close` are thread-safe. The caller must not call `close` while a bundle runs.

    Args:
        scratch: folder for the temporary files of this process.
        channel: channel to the server, which serves staged files and collects the logs of SDKs.
    """

    def __init__(
        self,
        work: JobWork,
        folder: Path,
        scratch: Path,
        clock: ProcessingClock,
        channel: ChannelClient,
    ) -> None:
        self._work = work
        self._plan = work.plan
        self._folder = folder
        self._scratch = scratch
        self._clock = clock
        self._channel = channel
        self._stages: dict[str, BuiltStage] = {}
        self._harnesses: dict[str, Harness] = {}
        self._fnapi: FnApiServer | None = None
        self._building = threading.Lock()
        self._closed = False
        channel.more_stacks = lambda: collect_harness_stacks(self._fnapi)

    def get_stage(self, stage_id: str) -> BuiltStage:
        """Returns a stage, which is built on first use.

        Raises:
            Exception: The stage can't be built. A later call tries again.
        """
        with self._building:
            stage = self._stages.get(stage_id)
            if stage is None:
                stage = self._stages[stage_id] = self._build_stage(stage_id)
            return stage

    def log_records(self, records: Iterable[LogRecord]) -> None:
        """Sends log records to the server (``beam_runner_worker.ports.LogSink``)."""
        self._channel.send(LogBatch(tuple(records)))

    def close(self) -> None:
        """Tears down all DoFns and stops the SDK harnesses; idempotent."""
        if self._closed:
            return
        self._closed = True
        for harness in self._harnesses.values():
            harness.close()
        if self._fnapi is not None:
            self._fnapi.close()

    def _build_stage(self, stage_id: str) -> BuiltStage:
        plan = self._plan.stages[stage_id]
        side_inputs = BundleSideInputs(plan.side_inputs, self._folder)
        with redirect_temporary_files(self._scratch):
            environment = self._create_harness(plan)
            harness = environment.get_stage_harness(plan.spec, side_inputs)
            work = StageContext.create_for_stage(self._work, stage_id, self._clock)
            merger = None if work.input_buffer is None else self._create_merger(work.input_buffer)
        truncation = None
        if plan.truncation is not None:
            truncation = InputTruncator(plan.truncation, environment, side_inputs, self._folder)
        return BuiltStage(work, side_inputs, harness, merger, truncation)

    def _create_merger(self, buffer: BufferPlan) -> SdkMerger | None:
        """Returns the object that merges a buffer's windows in the SDK, or None if the engine can
        merge these windows.
        """
        plan = buffer.merging
        if plan is None:
            return None
        assert buffer.strategy is not None
        harness = self._create_harness(plan).get_stage_harness(
            plan.spec, BundleSideInputs((), self._folder)
        )
        return SdkMerger(harness, plan.spec.outputs[0].transform_id, buffer.strategy.window_coder)

    def _create_harness(self, plan: StagePlan | MergingPlan) -> Harness:
        # All environments of a job whose user code runs in this process share one harness, because
        # the process has only one interpreter.
        key = "" if plan.embedded else plan.spec.environment_id
        if key not in self._harnesses:
            if plan.embedded:
                job = self._plan
                self._harnesses[key] = EmbeddedHarness(
                    job.context,
                    self._channel,
                    self,
                    compute_table_budget(),
                    job.list_embedded_specs,
                    captures_prints=True,
                )
            else:
                self._harnesses[key] = self._get_fnapi_server().get_harness(key)
        return self._harnesses[key]

    def _get_fnapi_server(self) -> FnApiServer:
        if self._fnapi is None:
            self._fnapi = FnApiServer(
                self._plan.context,
                self._channel,
                self,
                limits=_compute_harness_limits(),
                on_external_worker=self._connect_external_worker,
            )
        return self._fnapi

    def _connect_external_worker(self, endpoint: str, worker_id: str) -> None:
        self._channel.send(ExternalWorkerStarted(endpoint, worker_id))


def _compute_harness_limits() -> HarnessLimits:
    return HarnessLimits(
        LIMITS.harness_connect_seconds,
        LIMITS.harness_unseen_seconds,
        LIMITS.harness_start_seconds,
        LIMITS.harness_prepare_seconds,
        LIMITS.harness_teardown_seconds,
        LIMITS.harness_interrupted_seconds,
    )
