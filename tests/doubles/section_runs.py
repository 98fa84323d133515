"""Sections run in this process: real plans and harnesses, and between their tasks lists in place of Spark's shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_model.buffers import MergingPlan
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import BundleData, FolderData
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.merging import SdkMerger
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, JobWork, RunBundle
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.sections.inbox import SectionInbox
from beam_runner_runtime.sections.replies import SectionReply, merge_section_replies
from beam_runner_runtime.sections.task import PreparedSection, SectionOrder, SectionTask
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.ports import Harness

SHARDS = 4
Parcels = list[list[bytes]]
"""By shard."""


def order_of(plan: JobPlan, stages: Iterable[str] | None = None) -> RunBundle:
    """Returns the order to run a plan's first stages as a section; by default all stages. The
    stages start with impulses.
    """
    roots = {output.collection: output.data for output in make_root_outputs(plan)}
    parts = []
    for stage_id in stages or plan.stages:
        root = roots.get(f"impulse:{stage_id}")
        inputs = () if root is None else (Input(root),)
        parts.append(SectionStageInput(stage_id, inputs, (), MIN_TIMESTAMP))
    bundle = Bundle(
        number=7,
        attempt=1,
        stage=parts[0].stage,
        shard=None,
        inputs=(),
        side_inputs=(),
        input_watermark=MIN_TIMESTAMP,
        end_watermark=MAX_TIMESTAMP,
        output_watermark=MIN_TIMESTAMP,
        processing_time=0,
        parts=tuple(parts),
    )
    return RunBundle(bundle, "1-7-1")


class Host:
    """Process that runs bundles of sections, as `WorkerProcess` does, without artifacts.

    Attributes:
        budget: memory limit of a bundle's grouping, bytes; set before the first bundle.
    """

    def __init__(self, plan: JobPlan, folder: Path) -> None:
        self.work = JobWork(plan, SHARDS, StoreSpec(str(folder)))
        self.folder = folder
        self.data = FolderData(folder)
        self.scratch = folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.budget = 1 << 30
        self.clock = ProcessingClock()
        self.ends: list[BundleFailure | SectionRefusal] = []
        self.warnings: list[str] = []
        self._embedded = EmbeddedHarness(plan.context, self, self)
        self._fnapi = FnApiServer(plan.context, self, self)
        self._stages: dict[str, Any] = {}

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider, data: BundleData
    ) -> BundleReply | BundleFailure:
        plan, side_inputs, harness, merger = self._stage(order.bundle.stage)
        side_inputs.set_visible_data(order.bundle.side_inputs)
        return LocalBundle(plan, order, harness, stores, data, merger).run()

    def _stage(self, stage_id: str) -> Any:
        if stage_id not in self._stages:
            stage = self.work.plan.stages[stage_id]
            side_inputs = BundleSideInputs(stage.side_inputs, self.folder)
            work = StageContext.create_for_stage(self.work, stage_id).copy_for_section()
            work = attrs.evolve(work, budget=self.budget)
            harness = self._harness(stage).get_stage_harness(stage.spec, side_inputs)
            merging = None if work.input_buffer is None else work.input_buffer.merging
            merger = None
            if merging is not None:
                sdk = self._harness(merging).get_stage_harness(
                    merging.spec, BundleSideInputs((), self.folder)
                )
                assert work.input_buffer is not None and work.input_buffer.strategy is not None
                coder = work.input_buffer.strategy.window_coder
                merger = SdkMerger(sdk, merging.spec.outputs[0].transform_id, coder)
            self._stages[stage_id] = (work, side_inputs, harness, merger)
        return self._stages[stage_id]

    def _harness(self, stage: StagePlan | MergingPlan) -> Harness:
        if stage.embedded:
            return self._embedded
        return self._fnapi.get_harness(stage.spec.environment_id)

    def report_end(self, end: BundleFailure | SectionRefusal) -> None:
        self.ends.append(end)

    def log_warning(self, text: str) -> None:
        self.warnings.append(text)

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def log_records(self, records: Iterable[LogRecord]) -> None:
        pass

    def close(self) -> None:
        self._embedded.close()
        self._fnapi.close()


class Run:
    """Attempt at a section (a Spark job of several stages).

    Attributes:
        between: function that can change the input of a task, given its level, number and shuffle
            blocks.
        attempts: number of started tasks, which names them.
    """

    def __init__(self, host: Host, order: RunBundle, shards: int = SHARDS) -> None:
        self.host = host
        self.shards = shards
        self.prepared = PreparedSection.prepare_section(host.work.plan, SectionOrder(order, shards))
        self.between: Callable[[int, int, list[bytes]], list[bytes]] = lambda level, task, some: (
            some
        )
        self.attempts = 0

    @property
    def levels(self) -> int:
        return len(self.prepared.plan.levels)

    @property
    def tasks(self) -> tuple[int, ...]:
        return self.prepared.plan.tasks

    def task(self, level: int, number: int, parcels: list[bytes]) -> list[tuple[int, bytes]]:
        """Runs one attempt at a task; returns its output."""
        self.attempts += 1
        task = SectionTask(self.host, self.prepared, level, number, self.attempts)
        return list(task.run_task(parcels))

    def level(self, level: int, before: Parcels) -> Parcels:
        """Runs a level; returns the input of each task of the next level."""
        sent: Parcels = [[] for _ in range(1 if level == self.levels - 1 else self.shards)]
        for number in range(self.tasks[level]):
            for shard, parcel in self.task(
                level, number, self.between(level, number, before[number])
            ):
                sent[shard].append(parcel)
        return sent

    def all(self) -> SectionReply:
        """Runs all levels; returns their final reports."""
        parcels: Parcels = [[] for _ in range(self.shards)]
        for level in range(self.levels):
            parcels = self.level(level, parcels)
        return self.gathered(parcels[0])

    def gathered(self, parcels: list[bytes]) -> SectionReply:
        """Runs the final task on shuffle blocks; returns its result."""
        inbox = SectionInbox(self.host.scratch / "last", 1 << 30)
        for parcel in parcels:
            inbox.store_block(parcel)
        inbox.check_blocks("the last", self.tasks[-1])
        return merge_section_replies(inbox.replies)
