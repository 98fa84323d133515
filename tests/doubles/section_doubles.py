"""Sections as Spark runs them, but in this thread: stage after stage over all data, as real bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output
from beam_runner_model.buffers import BufferKind
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal, UserFailure
from beam_runner_runtime.channel.messages import BundleReply, JobWork, RunBundle
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from beam_runner_worker.totals import Totals
from sample_buffers import buffer
from small_plans import plan_of, stage
from worker_doubles import FakeHarness, FakeWorker

PLAN = plan_of(
    [
        stage("read", None, {"out": "pairs"}),
        stage("count", "pairs", {"out": "counts"}, groups=True),
        stage("end", "counts"),
        stage("other", "counts"),
    ],
    [buffer("pairs", BufferKind.GROUPED), buffer("counts", BufferKind.STORED)],
)
"""Plan whose first two stages are a section; its output has two readers."""
TRANSFORMS: Any = {
    "read": lambda _: {"out": [b"a1", b"b1", b"a2"]},
    "count": lambda groups: {"out": groups},
}
EXPECTED = {"a=2": 2, "b=1": 2}


def broken(order: RunBundle, failure: UserFailure | None = None) -> BundleFailure:
    """Returns the failure of a section (a Spark job), caused by user code or by Spark."""
    attempt = order.attempt
    return BundleFailure(attempt, failure, "" if failure else "Spark lost it")


def refused(order: RunBundle) -> SectionRefusal:
    """Returns the report that a section (several stages) can't run as one Spark job."""
    return SectionRefusal(order.attempt, "it has residuals")


@attrs.define(eq=False)
class FakeSections:
    """Implementation of ``sections.ports.SectionHost``.

    Attributes:
        waiting: running sections with their titles.
        history: orders of all started sections.
        answer: function that returns the outcome of an order; None for the real outcome.
        tasks: progress of the tasks.
    """

    plan: JobPlan
    stages: Mapping[str, FakeHarness]
    folder: Path
    waiting: list[tuple[RunBundle, str, Callable[[SectionEnd], None]]] = attrs.field(factory=list)
    history: list[RunBundle] = attrs.field(factory=list)
    answer: Callable[[RunBundle], SectionEnd | None] = lambda order: None
    tasks: TaskCounts = attrs.field(factory=TaskCounts)

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        self.history.append(order)
        self.waiting.append((order, title, on_end))

    def handle_section_message(self, message: Any) -> bool:
        return False

    def count_section_tasks(self) -> TaskCounts:
        return self.tasks

    def end_all(self) -> None:
        """Finishes all running sections (Spark jobs)."""
        waiting, self.waiting = self.waiting, []
        for order, _, on_end in waiting:
            on_end(self.answer(order) or self.run(order))

    def run(self, order: RunBundle) -> BundleReply | BundleFailure:
        """Runs a section (a Spark job) to its end."""
        worker = FakeWorker(self.plan, self.stages, self.folder)
        made: dict[str, list[Data]] = {}
        metrics = Totals()
        for part in order.bundle.parts:
            for number, one in enumerate(self._bundles_of(order.bundle, part, made)):
                reply = worker.run(RunBundle(one, f"{order.name}-{part.stage}-{number}"))
                if isinstance(reply, BundleFailure):
                    return reply
                metrics.add(reply.metrics)
                for output in reply.done.outputs:
                    made.setdefault(output.collection, []).append(output.data)
        read = {self.plan.stages[part.stage].input_buffer for part in order.bundle.parts}
        ends = tuple(Output(name, data) for name in made if name not in read for data in made[name])
        done = BundleDone(order.bundle.number, order.bundle.attempt, ends)
        return BundleReply(done, None, metrics.infos())

    def _bundles_of(
        self, bundle: Bundle, part: SectionStageInput, made: Mapping[str, list[Data]]
    ) -> Iterator[Bundle]:
        buffer_id = self.plan.stages[part.stage].input_buffer or ""
        inputs = part.inputs or tuple(map(Input, made.get(buffer_id, ())))
        keyed = bool(buffer_id) and self.plan.buffers[buffer_id].kind.is_keyed
        for shard in sorted(_shards(inputs)) if keyed else [None]:
            yield attrs.evolve(
                bundle,
                stage=part.stage,
                shard=shard,
                inputs=tuple(one for one in inputs if shard in (None, one.data.facts.shard)),
                side_inputs=part.side_inputs,
                input_watermark=part.input_watermark,
                parts=(),
            )


def _shards(inputs: Iterable[Input]) -> set[int]:
    return {one.data.facts.shard or 0 for one in inputs}
