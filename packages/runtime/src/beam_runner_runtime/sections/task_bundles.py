"""The bundles of one task: the engine's driver opens them, and this host runs them one after the other.

The scheduler of a task knows the stages of its level, each with what this task reads for it. So what a bundle
puts off, or waits for in processing time, is opened again by the rules that hold on lanes and in loops:

| a bundle | then |
|---|---|
| is done | its outputs and metrics are reported; what it hands back is scheduled |
| has handed back work, or set a timer, for later | the task waits for the next alarm, at most `_MOST_DELAY` |
| has handed back work for later than that | the section is refused, and runs as bundles |
| wants to know of its commit, or wrote a row too large for an exchange | the section is refused |
| broke, by user code or since a neighbour is away | the section ends |
| broke otherwise | `TaskFailedError`: Spark runs the task again |
| was the last one | the task ends |
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import attrs
from beam_runner_data.state.shard_stores import LoopStores
from beam_runner_engine.dispatch.driver import Driver
from beam_runner_engine.scheduler.commands import Bundle, Command, Input
from beam_runner_engine.scheduler.events import BundleDone, Event, FailureKind, Output, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageKind, StageSpec
from beam_runner_model.buffers import BufferKind
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.attempts import Attempt, BundleBroke, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.sections.data import SectionData
from beam_runner_runtime.sections.plan import SectionStage
from beam_runner_runtime.sections.ports import TaskHost
from beam_runner_runtime.sections.pushing import NobodyPullsError
from beam_runner_runtime.sections.replies import SectionOutputs, SectionReply, merge_replies

StageInputs = Sequence[tuple[SectionStage, Sequence[Input]]]
"""What a task reads for each stage of its level."""

_MOST_DELAY = 10_000
"""How long (ms) a task waits for its next alarm; meanwhile nobody else has its slot."""
_LOOK_SECONDS = 0.2


class TaskFailedError(Exception):
    """A task of a section failed from outside; Spark is to try it again."""


class TaskBundles:
    """Runs all bundles of one task, as host of the engine's driver. Belongs to one thread.

    Args:
        host: the process.
        section: the bundle of the section, of which these are parts.
        name: unique to this attempt at the task; what its bundles write is named after it.
        inputs: what this task reads for each stage of its level.
        data: the rows of this task.
        is_wanted: returns whether anybody still reads what the task sends.
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
        self._scheduler = Scheduler(_graph(host.work.plan, inputs))
        self._driver: Driver[Event] = Driver(self)
        self._waiting: deque[Bundle] = deque()
        self._state: dict[tuple[str, int | None], LoopStores] = {}
        self._replies: list[SectionReply] = []
        self._end: BundleBroke | SectionRefusal | None = None

    def run(self) -> SectionReply:
        """Runs bundles until none is left, or one of them ends the section.

        Raises:
            TaskFailedError: a bundle failed from outside, and may run again.
            NobodyPullsError: nobody reads what the task sends.
        """
        roots = tuple(
            Output(stage.plan.stage_id, one.data) for stage, some in self._inputs for one in some
        )
        self._driver.execute(self._scheduler.handle(Start(self._host.clock.now(), roots)))
        while self._end is None and not self._driver.has_ended:
            if self._waiting:
                self._run(self._waiting.popleft())
            else:
                self._nap()
        return attrs.evolve(merge_replies(self._replies), end=self._end)

    def _run(self, opened: Bundle) -> None:
        stage = self._stages[opened.stage]
        order = RunBundle(
            self._part_of_section(stage, opened), f"{self._name}-{stage.place}-{opened.number}"
        )
        stores = self._state.pop((opened.stage, opened.shard), None) or LoopStores(
            self._host.scratch, {}
        )
        reply = self._host.run_bundle(order, stores, self._data)
        if not self._is_wanted():
            raise NobodyPullsError  # nor does the server want to hear of it
        if isinstance(reply, BundleBroke):
            self._broke(stage, reply)
        elif reason := self._why_not(reply.done):
            self._refuse(f"{stage.plan.spec.name} {reason}")
        else:
            if opened.shard is not None and stores.is_known(opened.stage, opened.shard):
                self._keep_state(opened.stage, opened.shard, stores, reply.done)
            self._took(stage, opened, reply)

    def _keep_state(self, stage: str, shard: int, stores: LoopStores, done: BundleDone) -> None:
        """Keeps the state of a shard that waits for processing time; no bundle reads another one again."""
        if done.summary != EMPTY_SUMMARY:
            stores.accept(stage, shard)
            self._state[stage, shard] = stores

    def _took(self, stage: SectionStage, opened: Bundle, reply: BundleReply) -> None:
        outputs = SectionOutputs(stage.place, self._data.source, reply.done.outputs)
        self._replies.append(SectionReply(outputs=(outputs,), metrics=reply.metrics))
        # What reads the outputs is no part of this task.
        done = attrs.evolve(
            reply.done, bundle=opened.number, attempt=opened.attempt, outputs=(), finalize=False
        )
        now = self._host.clock.now()
        self._driver.record_entries((done,), now)
        wait = self._driver.time_until_wake(now)
        if wait is not None and wait > _MOST_DELAY and not self._driver.has_ended:
            self._refuse(f"{stage.plan.spec.name} has put off a part of its work for long")

    def _part_of_section(self, stage: SectionStage, opened: Bundle) -> Bundle:
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

    def _why_not(self, done: BundleDone) -> str:
        """Returns why what a bundle came to can't be part of a section; empty if it can."""
        if done.finalize:
            return "wants to be told when its bundle is committed"
        if self._data.outbox.overflows:
            return "hands on elements that are too large for Spark's shuffle"
        return ""

    def _refuse(self, reason: str) -> None:
        self._end = SectionRefusal(Attempt.of(self._section), reason, ran=True)
        self._host.tell(self._end)

    def _broke(self, stage: SectionStage, broken: BundleBroke) -> None:
        if broken.failure is None and broken.kind is FailureKind.OUTSIDE:
            text = f"{stage.plan.spec.name}: {broken.reason}"
            self._host.warn(f"a task of a section failed, and Spark may run it again: {text}")
            raise TaskFailedError(text)
        self._end = broken
        self._host.tell(broken)

    def _nap(self) -> None:
        """Waits for the next alarm, and tells the scheduler just that time: a later one would depend on the machine."""
        now = self._host.clock.now()
        wait = self._driver.time_until_wake(now)
        assert wait is not None, "nothing runs, and no alarm is set"
        until = time.monotonic() + wait / 1000
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            if not self._is_wanted():
                raise NobodyPullsError
        self._driver.record_entries((), now + wait)

    # What the driver asks for.

    @property
    def next_wake(self) -> int | None:
        """The processing time (ms) of the next tick that is needed."""
        return self._scheduler.next_wake

    def record(self, entries: Sequence[Event]) -> list[Command]:
        """Works entries in; what counts of them is on record with the reply of the section."""
        return [command for entry in entries for command in self._scheduler.handle(entry)]

    def open(self, bundles: Sequence[Bundle]) -> None:
        """Has bundles wait for their turn."""
        self._waiting.extend(bundles)

    def split(self, bundle: int, attempt: int, fraction: float) -> None:
        """Does nothing: a task does not report a bundle while that runs, so none is split."""

    def stop(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Forgets what waits: the scheduler has failed."""
        self._waiting.clear()

    def finalize(self, bundles: Sequence[int]) -> None:
        """Does nothing: bundles with callbacks are refused."""


_KINDS = {BufferKind.GROUPED: StageKind.GROUPING, BufferKind.KEYED: StageKind.STATEFUL}


def _graph(plan: JobPlan, inputs: StageInputs) -> GraphSpec:
    """Returns stages that each have a root of their own name: within a task none reads what another writes."""
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
