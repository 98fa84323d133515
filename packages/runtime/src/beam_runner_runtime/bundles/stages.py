"""The stages that a worker process has bundles of: each is built once, with its SDK, and some before their bundles come."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import attrs
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_model.buffers import BufferPlan, MergingPlan
from beam_runner_model.threads import start_helper
from beam_runner_planner.plan import StagePlan
from beam_runner_worker.embedded.harness import EmbeddedHarness
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.ports import Harness, StageHarness

from beam_runner_runtime.bundles.merging import SdkMerger
from beam_runner_runtime.bundles.stage_work import StageWork
from beam_runner_runtime.bundles.temporary import temporary_files_in
from beam_runner_runtime.bundles.truncation import Truncation
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.messages import ExternalWorkerStarted, JobWork, Logged
from beam_runner_runtime.channel.sdk_stacks import stacks_of_sdks
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.memory import table_budget

_SENT_SECONDS = 0.002
"""A bundle that has just begun is with its SDK after that, and this process has time."""
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class BuiltStage:
    """A stage that can have bundles.

    Attributes:
        work: what all of them have in common.
        side_inputs: what the bundle that runs sees of them.
        harness: runs them.
        merger: merges the windows of its input, if the engine can't.
        truncation: truncates restrictions, if it processes any.
    """

    work: StageWork
    side_inputs: BundleSideInputs
    harness: StageHarness
    merger: SdkMerger | None
    truncation: Truncation | None


class JobStages:
    """All methods may be called from any thread, but `close`, which is not to be called while a bundle runs.

    Args:
        work: the job.
        folder: the job's.
        scratch: where this process may keep files of its own.
        clock: the job's processing time.
        channel: to the server, which has what is staged, and is told what SDKs log.
        is_busy: whether a bundle runs.
    """

    def __init__(
        self,
        work: JobWork,
        folder: Path,
        scratch: Path,
        clock: ProcessingClock,
        channel: ChannelClient,
        is_busy: Callable[[], bool],
    ) -> None:
        self._work = work
        self._plan = work.plan
        self._readers = work.plan.readers()
        self._folder = folder
        self._scratch = scratch
        self._clock = clock
        self._channel = channel
        self._is_busy = is_busy
        self._stages: dict[str, BuiltStage] = {}
        self._harnesses: dict[str, Harness] = {}
        self._fnapi: FnApiServer | None = None
        self._building = threading.Lock()
        self._to_build: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closed = False
        channel.more_stacks = lambda: stacks_of_sdks(self._fnapi)
        if self._plan.needs_sdks:
            start_helper(self._build_ahead, "stages")

    def get(self, stage_id: str) -> BuiltStage:
        """A stage, built on first use.

        Raises:
            Exception: it can't be built; another time it may.
        """
        with self._building:
            stage = self._stages.get(stage_id)
            if stage is None:
                stage = self._stages[stage_id] = self._build(stage_id)
            return stage

    def begin_with_sdk(self) -> None:
        """Has the SDK start while the server makes the first bundle, if one elsewhere runs them all."""
        stages = self._plan.stages.values()
        first = next((stage for stage in stages if stage.input_buffer is None), None)
        if first is not None and len({stage.spec.environment_id for stage in stages}) == 1:
            self._build_soon(first)

    def build_readers_soon(self, begun: StagePlan) -> None:
        """Has those stages built meanwhile that read what a bundle elsewhere puts out."""
        if begun.embedded:
            return
        for stage in (s for b in begun.outputs.values() for s in self._readers.get(b, ())):
            # Of others nobody knows whether this process will need their SDK.
            if stage.spec.environment_id == begun.spec.environment_id:
                self._build_soon(stage)

    def set_up_reader(self, written: Collection[str]) -> None:
        """Has the stage set up that reads what a bundle has written, if it is the only one."""
        readers = [stage for buffer in written for stage in self._readers.get(buffer, ())]
        if len(readers) != 1 or readers[0].side_inputs or readers[0].stateful is not None:
            return
        stage = self._stages.get(readers[0].stage_id)
        if stage is not None:
            try:
                stage.harness.set_up()
            except HarnessError:
                # The bundle itself, if it comes, gets the same.
                _LOGGER.debug("%s was not set up", readers[0].stage_id, exc_info=True)

    def log(self, records: Iterable[LogRecord]) -> None:
        """Sends log records to the server (``beam_runner_worker.ports.LogSink``)."""
        self._channel.send(Logged(tuple(records)))

    def close(self) -> None:
        """Tears down all DoFns, and ends what SDKs there are; idempotent."""
        if self._closed:
            return
        self._closed = True
        for harness in self._harnesses.values():
            harness.close()
        if self._fnapi is not None:
            self._fnapi.close()

    def _build_soon(self, stage: StagePlan) -> None:
        if not stage.embedded and stage.stage_id not in self._stages:
            self._to_build.put(stage.stage_id)

    def _build_ahead(self) -> None:
        """Builds stages before their bundles come, while the SDK elsewhere works on another one."""
        while True:
            stage_id = self._to_build.get()
            if self._closed:
                return
            if self._is_busy():
                time.sleep(_SENT_SECONDS)
            try:
                self.get(stage_id)
            except Exception:
                # If it runs, it will be tried again, and what is wrong with it be told.
                _LOGGER.debug("%s was not built ahead", stage_id, exc_info=True)

    def _build(self, stage_id: str) -> BuiltStage:
        plan = self._plan.stages[stage_id]
        side_inputs = BundleSideInputs(plan.side_inputs, self._folder)
        with temporary_files_in(self._scratch):
            environment = self._harness(plan)
            harness = environment.stage(plan.spec, side_inputs)
            work = StageWork.of(self._work, stage_id, self._clock)
            merger = None if work.input_buffer is None else self._merger(work.input_buffer)
        truncation = None
        if plan.truncation is not None:
            truncation = Truncation(plan.truncation, environment, side_inputs, self._folder)
        return BuiltStage(work, side_inputs, harness, merger, truncation)

    def _merger(self, buffer: BufferPlan) -> SdkMerger | None:
        """What merges the windows of a buffer, if the engine can't."""
        plan = buffer.merging
        if plan is None:
            return None
        assert buffer.strategy is not None
        harness = self._harness(plan).stage(plan.spec, BundleSideInputs((), self._folder))
        return SdkMerger(harness, plan.spec.outputs[0].transform_id, buffer.strategy.window_coder)

    def _harness(self, plan: StagePlan | MergingPlan) -> Harness:
        # All embedded environments of a job are one: there is only one interpreter here.
        key = "" if plan.embedded else plan.spec.environment_id
        if key not in self._harnesses:
            if plan.embedded:
                job = self._plan
                self._harnesses[key] = EmbeddedHarness(
                    job.context, self._channel, self, table_budget(), job.embedded_specs
                )
            else:
                self._harnesses[key] = self._fnapi_server().harness(key)
        return self._harnesses[key]

    def _fnapi_server(self) -> FnApiServer:
        if self._fnapi is None:
            self._fnapi = FnApiServer(
                self._plan.context,
                self._channel,
                self,
                on_external_worker=self._external_worker,
            )
        return self._fnapi

    def _external_worker(self, endpoint: str, worker_id: str) -> None:
        self._channel.send(ExternalWorkerStarted(endpoint, worker_id))
