"""Bundles that one Spark task of a section runs. The task runs the engine's scheduler for its
stages, and the bundles one after the other.

The scheduler of a task contains the stages of the task's level, with the task's input for each
stage. So deferred work and processing-time timers follow the same rules as on lanes and in loops:

| event of a bundle | effect |
|---|---|
| finishes | the task reports its outputs and metrics, and schedules its residuals |
| defers work or sets a timer for later | the task waits for the next alarm, at most `_MOST_DELAY` |
| defers work beyond that time | the section is refused, and its stages run as bundles |
| needs a commit callback, or writes a row too large for a shuffle | the section is refused |
| fails by user code, or because a neighbour is unavailable | the section ends |
| fails for another reason | `TaskFailedError`: Spark retries the task |
| is the last bundle | the task ends |
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import attrs
from beam_runner_data.state.shard_stores import SchedulerLoopStores
from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.scheduler.commands import Bundle, Command, Input
from beam_runner_engine.scheduler.events import BundleDone, Event, FailureKind, Output, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageKind, StageSpec
from beam_runner_model.buffers import BufferKind
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.sections.data import SectionData
from beam_runner_runtime.sections.plan import SectionStage
from beam_runner_runtime.sections.ports import TaskHost
from beam_runner_runtime.sections.push_iterator import ConsumerGoneError
from beam_runner_runtime.sections.replies import SectionOutputs, SectionReply, merge_section_replies

StageInputs = Sequence[tuple[SectionStage, Sequence[Input]]]
"""Type of a task's input: pairs of a stage that the task runs and the input data of the stage."""

_MOST_DELAY = 10_000
"""Maximum time (ms) that a task waits for its next alarm, because the task occupies its slot meanwhile."""
_LOOK_SECONDS = 0.2


class TaskFailedError(Exception):
    """Raised if a Spark task of a section fails for a reason other than user code, so that Spark
    retries the task.
    """


class TaskBundleRunner:
    """Runs all bundles of one Spark task of a section, as the engine's scheduler requires. Not
    thread-safe.

    Args:
        host: process of the task.
        section: bundle of the section, which contains the task's bundles.
        name: name that is unique to this attempt at the task; the bundles' files have this prefix.
        inputs: input of the task for each Beam stage that the task runs.
        data: rows of the task.
        is_wanted: function that returns whether Spark still reads the task's output.
    """

    def __init__(
        self,
        host: TaskHost,
        section: Bundle,
        name: str,
        inputs: StageInputs,
        data: SectionData,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._host = host
        self._section = section
        self._name = name
        self._inputs = inputs
        self._data = data
        self._is_wanted = is_wanted
        self._stages = {stage.plan.stage_id: stage for stage, _ in inputs}
        self._scheduler = Scheduler(_make_graph(host.work.plan, inputs))
        self._driver: JobDriver[Event] = JobDriver(self)
        self._waiting: deque[Bundle] = deque()
        self._state: dict[tuple[str, int | None], SchedulerLoopStores] = {}
        self._replies: list[SectionReply] = []
        self._end: BundleFailure | SectionRefusal | None = None

    def run_bundles(self) -> SectionReply:
        """Runs the task's bundles until all bundles are processed, or until a bundle ends the
        section.

        Raises:
            TaskFailedError: A bundle failed for an external reason, and Spark can retry the task.
            ConsumerGoneError: No reader consumes the task's output.
        """
        roots = tuple(
            Output(stage.plan.stage_id, one.data) for stage, some in self._inputs for one in some
        )
        self._driver.execute_commands(
            self._scheduler.handle_event(Start(self._host.clock.now(), roots))
        )
        while self._end is None and not self._driver.has_ended:
            if self._waiting:
                self._run_bundle(self._waiting.popleft())
            else:
                self._wait_for_alarm()
        return attrs.evolve(merge_section_replies(self._replies), end=self._end)

    def _run_bundle(self, opened: Bundle) -> None:
        stage = self._stages[opened.stage]
        order = RunBundle(
            self._limit_to_section(stage, opened), f"{self._name}-{stage.place}-{opened.number}"
        )
        stores = self._state.pop((opened.stage, opened.shard), None) or SchedulerLoopStores(
            self._host.scratch, {}
        )
        reply = self._host.run_bundle(order, stores, self._data)
        if not self._is_wanted():
            raise ConsumerGoneError  # The server doesn't need the result.
        if isinstance(reply, BundleFailure):
            self._handle_failure(stage, reply)
        elif reason := self._explain_refusal(reply.done):
            self._refuse_section(f"{stage.plan.spec.name} {reason}")
        else:
            if opened.shard is not None and stores.has_open_store(opened.stage, opened.shard):
                self._retain_state(opened.stage, opened.shard, stores, reply.done)
            self._record_reply(stage, opened, reply)

    def _retain_state(
        self, stage: str, shard: int, stores: SchedulerLoopStores, done: BundleDone
    ) -> None:
        """Retains the state of a key shard (hash partition of keys) whose timers wait for
        processing time. Later bundles of the task don't read other shards.
        """
        if done.summary != EMPTY_SUMMARY:
            stores.accept_changes(stage, shard)
            self._state[stage, shard] = stores

    def _record_reply(self, stage: SectionStage, opened: Bundle, reply: BundleReply) -> None:
        outputs = SectionOutputs(stage.place, self._data.source, reply.done.outputs)
        self._replies.append(SectionReply(outputs=(outputs,), metrics=reply.metrics))
        # Remove the outputs from the event: other tasks read the outputs, so the scheduler inside
        # this task must not schedule bundles for them.
        done = attrs.evolve(
            reply.done, bundle=opened.number, attempt=opened.attempt, outputs=(), finalize=False
        )
        now = self._host.clock.now()
        self._driver.record_journal_entries((done,), now)
        wait = self._driver.compute_wake_delay(now)
        if wait is not None and wait > _MOST_DELAY and not self._driver.has_ended:
            self._refuse_section(
                f"{stage.plan.spec.name} has deferred a part of its work for"
                f" more than {_MOST_DELAY // 1000} s"
            )

    def _limit_to_section(self, stage: SectionStage, opened: Bundle) -> Bundle:
        whole, part = self._section, stage.part
        return attrs.evolve(
            opened,
            number=whole.number,
            attempt=whole.attempt,
            side_inputs=part.side_inputs,
            input_watermark=part.input_watermark,
            end_watermark=whole.end_watermark,
            output_watermark=min(whole.output_watermark, part.input_watermark),
        )

    def _explain_refusal(self, done: BundleDone) -> str:
        """Returns the reason why the bundle's stages can't run in a section (one Spark job); empty
        if the stages can.
        """
        if done.finalize:
            return "registered callbacks for the commit of its bundle"
        if self._data.outbox.overflows:
            return "emits elements that are too large for Spark's shuffle"
        return ""

    def _refuse_section(self, reason: str) -> None:
        self._end = SectionRefusal(Attempt.from_bundle(self._section), reason, ran=True)
        self._host.report_end(self._end)

    def _handle_failure(self, stage: SectionStage, broken: BundleFailure) -> None:
        if broken.failure is None and broken.kind is FailureKind.OUTSIDE:
            text = f"{stage.plan.spec.name}: {broken.reason}"
            self._host.log_warning(f"a task of a section failed, and Spark can retry it: {text}")
            raise TaskFailedError(text)
        self._end = broken
        self._host.report_end(broken)

    def _wait_for_alarm(self) -> None:
        """Waits for the scheduler's next alarm, and sets the processing time to exactly the alarm's
        time.

        With the measured time, retries of the task could give other results.
        """
        now = self._host.clock.now()
        wait = self._driver.compute_wake_delay(now)
        assert wait is not None, "no bundle runs, and no alarm is set"
        until = time.monotonic() + wait / 1000
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            if not self._is_wanted():
                raise ConsumerGoneError
        self._driver.record_journal_entries((), now + wait)

    # Methods of the engine's protocol `Host`. The engine's driver calls them to execute commands.

    @property
    def next_wake(self) -> int | None:
        """Processing time (ms) of the next required tick; None if no tick is required."""
        return self._scheduler.next_wake

    def record_journal_entries(self, entries: Sequence[Event]) -> list[Command]:
        """Applies entries to the task's own scheduler. The reply of the section contains the
        results that the server commits.
        """
        return [command for entry in entries for command in self._scheduler.handle_event(entry)]

    def open_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Queues bundles, which `run_bundles` runs later."""
        self._waiting.extend(bundles)

    def split_bundle(self, bundle: int, attempt: int, fraction: float) -> None:
        """Does nothing: the scheduler doesn't split bundles of a task, because the task doesn't
        report their progress.
        """

    def cancel_bundles(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Discards the queued bundles, because the scheduler has failed."""
        self._waiting.clear()

    def finalize_bundles(self, bundles: Sequence[int]) -> None:
        """Does nothing: a section with finalization callbacks is refused."""


_KINDS = {BufferKind.GROUPED: StageKind.GROUPING, BufferKind.KEYED: StageKind.STATEFUL}


def _make_graph(plan: JobPlan, inputs: StageInputs) -> GraphSpec:
    """Returns the scheduler's graph of the task's stages. Each stage has a separate root
    collection, because stages of the same task don't read each other's output.
    """
    stages = []
    for stage, _ in inputs:
        name, source = stage.plan.stage_id, stage.plan.input_buffer
        kind = StageKind.ORDINARY
        if source is not None:
            kind = _KINDS.get(plan.buffers[source].kind, kind)
        stages.append(
            StageSpec(name, (name,), kind=kind, splittable=stage.plan.splittable, whole_input=True)
        )
    return GraphSpec(tuple(stages), tuple(stage.name for stage in stages))
