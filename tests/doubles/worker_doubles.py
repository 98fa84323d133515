"""A harness in plain Python, and worker processes that are objects: they run real bundles at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from apache_beam.coders import VarIntCoder
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import (
    BundleProgress,
    BundleResult,
    BundleSplit,
    MonitoringInfo,
    ResidualElement,
)
from beam_runner_model.chunks import ElementChunk, FlushBarrier, GroupChunk
from beam_runner_model.process_exits import ProcessExit
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.loop import TaskLoop
from beam_runner_runtime.bundles.truncation import InputTruncator
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure
from beam_runner_runtime.channel.messages import (
    BundleReply,
    RunBundle,
    RunLoop,
    WorkerActivity,
    WorkerHello,
)
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.ports import OutputPort, UserState
from sample_chunks import keyed_chunk
from small_plans import chunk_of, values_of, work_of

SHARDS = 2
INTEGER = VarIntCoder()
Transform = Callable[[list[bytes]], Mapping[str, list[bytes]]]
"""Function from the values of a bundle to the values of its outputs; groups have the form ``key=value,value``."""


def seen(value: bytes) -> MonitoringInfo:
    """Returns a metric of one for this value; its sum is the number of times that the value was processed."""
    labels = (("NAME", value.decode()),)
    return MonitoringInfo("beam:metric:x", metric_urns.SUM_INT64_TYPE, labels, INTEGER.encode(1))


def seen_in(metrics: Iterable[Any]) -> dict[str, int]:
    """Returns the number of times that each value was processed, from the metrics of a job."""
    counts = {}
    for info in metrics:
        if info.urn == "beam:metric:x":
            counts[dict(info.labels)["NAME"]] = INTEGER.decode(info.payload)
    return counts


@attrs.define(eq=False)
class FakeHarness:
    """Stage as a function; implements ``beam_runner_worker.ports.StageHarness``.

    Attributes:
        transform: function of the stage.
        kinds: buffer kinds of its outputs.
        result: result of a bundle, without its metrics.
        during: function that is called with each input chunk before its processing.
        splits: results of the next splits.
    """

    transform: Transform
    kinds: Mapping[str, BufferKind] = attrs.field(factory=dict)
    residuals: tuple[ResidualElement, ...] = ()
    finalizes: bool = False
    during: Callable[[Any], None] = lambda chunk: None
    splits: list[BundleSplit | None] = attrs.field(factory=list)
    processed: float | None = None
    asked: list[tuple[float, ...]] = attrs.field(factory=list)
    finalized: list[str] = attrs.field(factory=list)
    bundles: list[str] = attrs.field(factory=list)

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[Any],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        self.bundles.append(bundle_id)
        values = []
        for chunk in inputs:
            self.during(chunk)
            if isinstance(chunk, FlushBarrier):
                continue
            values += values_of(chunk) if isinstance(chunk, ElementChunk) else _groups(chunk)
        for sink, produced in self.transform(values).items():
            if not produced:
                continue
            keyed = self.kinds[sink] not in (BufferKind.STORED, BufferKind.DEALT)
            outputs[sink].write(keyed_chunk(produced) if keyed else chunk_of(produced))
        metrics = () if outputs else tuple(map(seen, values))
        return BundleResult(metrics, self.finalizes, self.residuals)

    def get_progress(self) -> BundleProgress | None:
        return None if self.processed is None else BundleProgress((), self.processed)

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        self.asked.append((keep, elements, *points))
        return self.splits.pop(0) if self.splits else None

    def finalize_bundle(self, bundle_id: str) -> None:
        self.finalized.append(bundle_id)


def _groups(chunk: GroupChunk) -> list[bytes]:
    return [b"%s=%d" % (key, count) for key, count in zip(chunk.keys, chunk.counts, strict=True)]


def harnesses(plan: JobPlan, transforms: Mapping[str, Transform]) -> dict[str, FakeHarness]:
    """Returns a harness for every stage of a plan; stages without a transform have no outputs."""
    return {
        name: FakeHarness(
            transforms.get(name, lambda values: {}),
            {sink: plan.buffers[b].kind for sink, b in one.outputs.items()},
        )
        for name, one in plan.stages.items()
    }


@attrs.define(eq=False)
class FakeWorker:
    """Worker process and the server's link to it; implements ``bundles.loop.BundleHost``.

    Attributes:
        heard: time of its last message; the current time unless a test sets it.
        doing: reported activity; ``doing_since`` is its start.
        pending: commands that the worker has not run yet.
        history: all commands for the worker.
        end: recorded exit of the process.
        in_loop: function that is called after a bundle of a loop, before the loop gets the result.
    """

    plan: JobPlan
    stages: Mapping[str, FakeHarness]
    folder: Path
    number: int = 0
    heard: float = float("inf")
    doing: WorkerActivity = WorkerActivity.BUNDLE
    doing_since: float = float("-inf")
    pending: deque[Any] = attrs.field(factory=deque)
    history: list[Any] = attrs.field(factory=list)
    in_loop: Callable[[TaskLoop, RunBundle], None] = lambda loop, order: None
    looping: TaskLoop | None = None
    end: ProcessExit | None = None

    @property
    def hello(self) -> WorkerHello:
        return WorkerHello("job-1", "host", 1000 + self.number)

    def send(self, command: Any) -> None:
        self.pending.append(command)
        self.history.append(command)

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider
    ) -> BundleReply | BundleFailure:
        reply = self.start(order, stores).run()
        if self.looping is not None:
            self.in_loop(self.looping, order)
        return reply

    def start(self, order: RunBundle, stores: KeyedStoreProvider | None = None) -> LocalBundle:
        """Starts a pending bundle."""
        stage = order.bundle.stage
        work = work_of(self.plan, stage, SHARDS)
        known = stores or ShardStores(self.folder)
        plan = work.stage.truncation
        truncation = None
        if plan is not None:
            no_sdk: Any = None
            truncation = InputTruncator(
                plan, no_sdk, BundleSideInputs((), self.folder), self.folder
            )
        harness = self.stages[stage]
        return LocalBundle(work, order, harness, known, FolderData(self.folder), None, truncation)

    def run(self, order: RunBundle) -> BundleReply | BundleFailure:
        """Runs a bundle with the state that its order names."""
        return self.start(order).run()

    def loop(self, order: RunLoop) -> list[Any]:
        """Runs a scheduler loop in this process. Returns all messages of the loop to the server."""
        said: list[Any] = []
        self.looping = TaskLoop(order, self.folder, self, said.append)
        last = self.looping.run_loop()
        self.looping = None
        return said if last is None else [*said, last]


def attempts_given(worker: FakeWorker) -> list[Attempt]:
    """Returns the attempts that a worker had to run, in order."""
    return [order.attempt for order in worker.history if isinstance(order, RunBundle)]
