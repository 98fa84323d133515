"""One task of a section: runs the stages of one level over what is for one shard."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import attrs
from beam_runner_data.rows.row import Row
from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, FailureKind, Residual
from beam_runner_model.buffers import BufferKind
from beam_runner_model.facts import DataFacts
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.bundles.failed_attempts import broke
from beam_runner_runtime.bundles.process import WorkerProcess
from beam_runner_runtime.bundles.pushing import NobodyPullsError, pushed
from beam_runner_runtime.bundles.section_data import SectionData
from beam_runner_runtime.bundles.section_inbox import Inbox
from beam_runner_runtime.bundles.section_outbox import Outbox, Send
from beam_runner_runtime.bundles.section_plan import SectionPlan, SectionStage, shares
from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.channel.section_replies import (
    SectionOutputs,
    SectionReply,
    Seen,
    merge_replies,
)
from beam_runner_runtime.memory import section_budget

_WAITING_SHARE = 4
"""One part in so many of a bundle's memory may wait to be sent together with more."""
_MOST_DELAY = 10_000
"""So long (ms) a task waits for what its user code has put off; meanwhile nobody else has its slot."""
_LOOK_SECONDS = 0.2


class TaskFailedError(Exception):
    """A task of a section failed from outside; Spark is to try it again."""


@attrs.frozen
class SectionOrder:
    """A section to be run.

    Attributes:
        order: the bundle, with its parts.
        shards: how many tasks each level has, but for the first.
    """

    order: RunBundle
    shards: int


@attrs.frozen
class Prepared:
    """What all tasks of a section need, made once in a process.

    Attributes:
        order: the section.
        plan: its stages.
        inputs: of a stage, by its place, what each task reads from outside.
    """

    order: SectionOrder
    plan: SectionPlan
    inputs: dict[int, list[list[Input]]]

    @classmethod
    def of(cls, plan: JobPlan, section: SectionOrder) -> Prepared:
        """That of a section of a job."""
        stages = SectionPlan.of(plan, section.order.bundle.parts, section.shards)
        heads = [one for level in stages.levels for one in level if not one.inner]
        inputs = {one.place: shares(plan, one, stages.tasks[one.level]) for one in heads}
        return cls(section, stages, inputs)


_prepared: dict[str, Prepared] = {}


def prepared_once(name: str, make: Callable[[], tuple[JobPlan, SectionOrder]]) -> Prepared:
    """What was prepared under this name before; only the last is kept."""
    if name not in _prepared:
        made = Prepared.of(*make())
        _prepared.clear()
        _prepared[name] = made
    return _prepared[name]


class SectionTask:
    """One attempt at one task.

    Args:
        host: the process.
        prepared: the section that it is a task of.
        level: which stages it runs.
        source: its number, from 0.
        attempt: tells it from other attempts at this task.
    """

    def __init__(
        self,
        host: WorkerProcess,
        prepared: Prepared,
        level: int,
        source: int,
        attempt: int,
    ) -> None:
        self._host = host
        section = self._section = prepared.order
        self._prepared = prepared
        self._plan = prepared.plan
        self._level = level
        self._source = source
        self._budget = section_budget()
        self._wanted = True
        self._name = f"{section.order.name}-{level}-{source}-{attempt}"
        self._attempt = section.order.attempt

    def run(self, parcels: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """The parcels of this task with the shard that each is for, from those that are for it.

        Raises:
            ExchangeError: Spark did not give what was sent.
            TaskFailedError: it failed from outside, and may be tried again.
        """
        inbox = Inbox(self._host.scratch / f"{self._name}-rows", self._budget)
        try:
            with self._told_of_neighbours():
                for parcel in parcels:
                    inbox.take(parcel)
                if self._level:
                    before = self._level - 1
                    inbox.check(self._plan.name(before), self._plan.tasks[before])

            def produce(push: Callable[[tuple[int, bytes]], None]) -> None:
                with self._told_of_neighbours():
                    self._work(inbox, lambda shard, parcel: push((shard, parcel)))

            yield from pushed(produce)
        finally:
            self._wanted = False
            inbox.close()

    @contextmanager
    def _told_of_neighbours(self) -> Iterator[None]:
        """Tells the server if a disk or a store is away: the section then ends, and runs again later as a whole."""
        try:
            yield
        except Exception as error:
            broken = broke(self._attempt, error, self._host.scratch)
            if broken.kind is FailureKind.UNAVAILABLE:
                self._host.tell(broken)
            raise

    @property
    def _is_last(self) -> bool:
        return self._level == len(self._plan.levels) - 1

    def _work(self, inbox: Inbox, send: Send) -> None:
        shards = 1 if self._is_last else self._section.shards
        outbox = Outbox(self._source, shards, send, self._budget // _WAITING_SHARE)
        seen = (Seen(self._level, inbox.digest, 1),) if self._level else ()
        own = SectionReply(((self._level, 1),), seen)
        if not inbox.broken:
            own = merge_replies((own, *self._bundles(inbox, outbox)))
        reply = merge_replies((*inbox.replies, own))
        outbox.finish(reply, broken=inbox.broken or reply.end is not None)

    def _bundles(self, inbox: Inbox, outbox: Outbox) -> Iterator[SectionReply]:
        """What each bundle of this task comes to, up to one that ends the section."""
        host = self._host
        data = SectionData(
            self._plan, self._source, self._section.shards, inbox, outbox, host.data, host.scratch
        )
        received = inbox.stages()
        for stage in self._plan.levels[self._level]:
            inputs = self._prepared.inputs.get(stage.place)
            if inputs is not None:
                own = inputs[self._source]
            elif (rows := received.pop(stage.place, None)) is not None:
                shard = self._source if self._kind(stage).is_keyed else None
                facts = DataFacts(rows.count, rows.size, MIN_TIMESTAMP, shard, None)
                own = [Input(Data(rows, facts))]
            else:
                own = []
            numbers = itertools.count()
            for together in self._together(stage, own):
                waiting = together
                while waiting:
                    reply, put_off = self._bundle(stage, next(numbers), waiting, data)
                    yield reply
                    if reply.end is not None:
                        return
                    waiting = self._resumed(put_off)
        for place in received:  # of later levels
            for kind, count, row in inbox.rows(place):
                outbox.add(self._source, place, Row(self._source, kind, row, count))

    def _kind(self, stage: SectionStage) -> BufferKind:
        buffer = stage.plan.input_buffer
        assert buffer is not None
        return self._host.work.plan.buffers[buffer].kind

    def _together(self, stage: SectionStage, inputs: list[Input]) -> Iterator[tuple[Input, ...]]:
        """The inputs of each bundle: one for each shard where state is kept by key."""
        source = stage.plan.input_buffer
        buffer = None if source is None else self._host.work.plan.buffers[source]
        in_columns = buffer is not None and buffer.kind is BufferKind.GROUPED and buffer.bulk
        if buffer is None or not buffer.kind.is_keyed or in_columns:
            if inputs:
                yield tuple(inputs)
            return
        for _, own in groupby(inputs, lambda one: one.data.facts.shard):
            yield tuple(own)

    def _resumed(self, put_off: Sequence[Residual]) -> tuple[Input, ...]:
        """What a bundle has put off, as the input of the next one, when its time has come."""
        at = time.monotonic() + max((one.delay for one in put_off), default=0) / 1000
        while (left := at - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            if not self._wanted:
                raise NobodyPullsError
        return tuple(
            Input(one.data, one.windows, estimator_state=one.estimator_state) for one in put_off
        )

    def _bundle(
        self, stage: SectionStage, number: int, inputs: tuple[Input, ...], data: SectionData
    ) -> tuple[SectionReply, Sequence[Residual]]:
        """What a bundle comes to, and what it has put off."""
        whole, part = self._section.order.bundle, stage.part
        bundle = Bundle(
            number=whole.number,
            attempt=whole.attempt,
            stage=part.stage,
            shard=inputs[0].data.facts.shard,
            inputs=inputs,
            side_inputs=part.side_inputs,
            input_watermark=part.input_watermark,
            end_watermark=whole.end_watermark,
            output_watermark=min(whole.output_watermark, part.input_watermark),
            processing_time=whole.processing_time,
        )
        name = f"{self._name}-{stage.place}-{number}"
        reply = self._host.run_in_section(RunBundle(bundle, name), data)
        if not self._wanted:
            raise NobodyPullsError  # nor does the server want to hear of it
        if isinstance(reply, BundleReply):
            reason = _why_not(reply.done)
            if data.outbox.overflows:
                reason = "hands on elements that are too large for Spark's shuffle"
            if not reason:
                outputs = SectionOutputs(stage.place, self._source, reply.done.outputs)
                told = SectionReply(outputs=(outputs,), metrics=reply.metrics)
                return told, reply.done.residuals
            refusal = SectionRefusal(self._attempt, f"{stage.plan.spec.name} {reason}", ran=True)
            self._host.tell(refusal)
            return SectionReply(end=refusal), ()
        if reply.failure is None and reply.kind is FailureKind.OUTSIDE:
            text = f"{stage.plan.spec.name}: {reply.reason}"
            self._host.warn(f"a task of a section failed, and Spark may run it again: {text}")
            raise TaskFailedError(text)
        self._host.tell(reply)
        return SectionReply(end=reply), ()


def _why_not(done: BundleDone) -> str:
    """Why what a bundle came to can't be part of a section; empty if it can."""
    if any(one.delay > _MOST_DELAY for one in done.residuals):
        return "has put off a part of its work for long"
    if done.finalize:
        return "wants to be told when its bundle is committed"
    if done.summary not in (None, EMPTY_SUMMARY):
        return "has set timers in processing time"
    return ""
