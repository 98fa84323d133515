"""One Spark task of a section, which runs some of the section's stages on the data of one shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from beam_runner_data.rows.row import Row
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.facts import DataFacts
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.channel.messages import RunBundle
from beam_runner_runtime.memory import compute_section_budget
from beam_runner_runtime.sections.data import SectionData
from beam_runner_runtime.sections.inbox import ReceivedRows, SectionInbox
from beam_runner_runtime.sections.outbox import SectionOutbox, Send
from beam_runner_runtime.sections.plan import SectionPlan, SectionStage, distribute_input
from beam_runner_runtime.sections.ports import TaskHost
from beam_runner_runtime.sections.push_iterator import iterate_pushed_items
from beam_runner_runtime.sections.replies import InputDigestCount, SectionReply, merge_replies
from beam_runner_runtime.sections.task_bundles import TaskBundleRunner

_WAITING_SHARE = 4
"""Divisor of a bundle's memory budget; the quotient limits the output that waits for a full parcel."""


@attrs.frozen
class SectionOrder:
    """Order to a Spark task: the bundle of the section, and the number of tasks.

    Attributes:
        order: the bundle with its parts.
        shards: number of tasks per level, except for the first level.
    """

    order: RunBundle
    shards: int


@attrs.frozen
class PreparedSection:
    """Data that all tasks of a section share, computed once per process.

    Attributes:
        order: the section.
        plan: stages of the section.
        inputs: external inputs of each task, by the index of the stage.
    """

    order: SectionOrder
    plan: SectionPlan
    inputs: dict[int, list[list[Input]]]

    @classmethod
    def prepare_section(cls, plan: JobPlan, section: SectionOrder) -> PreparedSection:
        """Returns the shared data for a section of a job."""
        stages = SectionPlan.from_parts(plan, section.order.bundle.parts, section.shards)
        heads = [one for level in stages.levels for one in level if not one.inner]
        inputs = {one.place: distribute_input(plan, one, stages.tasks[one.level]) for one in heads}
        return cls(section, stages, inputs)


_prepared: dict[str, PreparedSection] = {}


def prepare_section_once(
    name: str, make: Callable[[], tuple[JobPlan, SectionOrder]]
) -> PreparedSection:
    """Returns the shared data of the section with this name; caches only the latest section."""
    if name not in _prepared:
        made = PreparedSection.prepare_section(*make())
        _prepared.clear()
        _prepared[name] = made
    return _prepared[name]


class SectionTask:
    """One attempt at one task of a section.

    Args:
        host: process of the task.
        prepared: shared data of the section.
        level: level whose stages the task runs.
        source: number of the task, from 0.
        attempt: number that distinguishes attempts at this task.
    """

    def __init__(
        self,
        host: TaskHost,
        prepared: PreparedSection,
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
        self._budget = compute_section_budget()
        self._wanted = True
        self._name = f"{section.order.name}-{level}-{source}-{attempt}"
        self._attempt = section.order.attempt

    def run_task(self, parcels: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yields pairs of target shard and output parcel, computed from the parcels for this task.

        Raises:
            ExchangeError: Spark's shuffle lost or changed data.
            TaskFailedError: The task failed for an external reason, and Spark can retry it.
        """
        inbox = SectionInbox(self._host.scratch / f"{self._name}-rows", self._budget)
        try:
            with self._report_unavailable_neighbours():
                for parcel in parcels:
                    inbox.store_parcel(parcel)
                if self._level:
                    before = self._level - 1
                    inbox.check_parcels(self._plan.format_level(before), self._plan.tasks[before])

            def produce(push: Callable[[tuple[int, bytes]], None]) -> None:
                with self._report_unavailable_neighbours():
                    self._process_level(inbox, lambda shard, parcel: push((shard, parcel)))

            yield from iterate_pushed_items(produce)
        finally:
            self._wanted = False
            inbox.close()

    @contextmanager
    def _report_unavailable_neighbours(self) -> Iterator[None]:
        """Reports an unavailable disk or store to the server, which ends the complete section and retries it later."""
        try:
            yield
        except Exception as error:
            broken = describe_failed_attempt(self._attempt, error, self._host.scratch)
            if broken.kind is FailureKind.UNAVAILABLE:
                self._host.report_end(broken)
            raise

    @property
    def _is_last_level(self) -> bool:
        return self._level == len(self._plan.levels) - 1

    def _process_level(self, inbox: SectionInbox, send: Send) -> None:
        shards = 1 if self._is_last_level else self._section.shards
        outbox = SectionOutbox(self._source, shards, send, self._budget // _WAITING_SHARE)
        seen = (InputDigestCount(self._level, inbox.input_digest, 1),) if self._level else ()
        own = SectionReply(((self._level, 1),), seen)
        if not inbox.is_incomplete:
            own = merge_replies((own, self._run_bundles(inbox, outbox)))
        reply = merge_replies((*inbox.replies, own))
        outbox.send_remaining(reply, broken=inbox.is_incomplete or reply.end is not None)

    def _run_bundles(self, inbox: SectionInbox, outbox: SectionOutbox) -> SectionReply:
        """Runs the bundles of this task, and forwards the rows for later levels."""
        host = self._host
        data = SectionData(
            self._plan, self._source, self._section.shards, inbox, outbox, host.data, host.scratch
        )
        received = inbox.count_rows_by_stage()
        inputs: list[tuple[SectionStage, Sequence[Input]]] = []
        for stage in self._plan.levels[self._level]:
            if (own := self._prepared.inputs.get(stage.place)) is not None:
                inputs.append((stage, own[self._source]))
            elif (rows := received.pop(stage.place, None)) is not None:
                inputs.append((stage, (self._make_input(stage, rows),)))
        bundle = self._section.order.bundle
        reply = TaskBundleRunner(
            host, bundle, self._name, inputs, data, lambda: self._wanted
        ).run_bundles()
        if reply.end is None:
            for place in received:  # Forward the rows for later levels.
                for kind, count, row in inbox.read_rows(place):
                    outbox.add_row(self._source, place, Row(self._source, kind, row, count))
        return reply

    def _make_input(self, stage: SectionStage, rows: ReceivedRows) -> Input:
        """Returns the input that other tasks sent for a stage."""
        buffer = stage.plan.input_buffer
        assert buffer is not None
        shard = self._source if self._host.work.plan.buffers[buffer].kind.is_keyed else None
        return Input(Data(rows, DataFacts(rows.count, rows.size, MIN_TIMESTAMP, shard, None)))
