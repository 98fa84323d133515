"""One Spark task of a section, which runs the stages of one level on the data of one key shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from beam_runner_data.rows.row import Row
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.facts import DataStatistics
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
from beam_runner_runtime.sections.replies import (
    InputDigestCount,
    SectionReply,
    merge_section_replies,
)
from beam_runner_runtime.sections.task_bundles import TaskBundleRunner

_WAITING_SHARE = 4
"""Divisor: output that isn't sent yet uses at most a bundle's memory budget divided by this number."""


@attrs.frozen
class SectionOrder:
    """Order to one Spark task of a section (a Spark job for several stages): the bundle to run, and
    the number of parallel tasks.

    Attributes:
        order: the bundle with its parts.
        shards: number of tasks per level, except for the first level.
    """

    order: RunBundle
    shards: int


@attrs.frozen
class PreparedSection:
    """Plan and input distribution of a section. All Spark tasks of the section in a process share
    this object.

    Attributes:
        order: the section.
        plan: stages of the section.
        inputs: inputs of each task from outside of the section, by the index of the stage.
    """

    order: SectionOrder
    plan: SectionPlan
    inputs: dict[int, list[list[Input]]]

    @classmethod
    def prepare_section(cls, plan: JobPlan, section: SectionOrder) -> PreparedSection:
        """Plans the levels (Spark stages) of a section, and distributes the section's external
        input over the tasks.
        """
        stages = SectionPlan.from_parts(plan, section.order.bundle.parts, section.shards)
        heads = [one for level in stages.levels for one in level if not one.inner]
        inputs = {one.place: distribute_input(plan, one, stages.tasks[one.level]) for one in heads}
        return cls(section, stages, inputs)


_prepared: dict[str, PreparedSection] = {}


def prepare_section_once(
    name: str, make: Callable[[], tuple[JobPlan, SectionOrder]]
) -> PreparedSection:
    """Returns the prepared section with this name. Calls `make` if the latest section has another name."""
    if name not in _prepared:
        made = PreparedSection.prepare_section(*make())
        _prepared.clear()
        _prepared[name] = made
    return _prepared[name]


class SectionTask:
    """One attempt at one Spark task of a section.

    Args:
        host: process of the task.
        prepared: shared data of the section.
        level: index of the Spark stage whose Beam stages the task runs.
        source: index of the task.
        attempt: number that differs between Spark's attempts at this task.
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
        """Runs the task on its input parcels (batches of rows), and yields pairs of target shard
        and output parcel.

        Raises:
            ExchangeError: Spark's shuffle lost or changed data.
            TaskFailedError: The task failed for an external reason, and Spark can retry it.
        """
        inbox = SectionInbox(self._host.scratch / f"{self._name}-rows", self._budget)
        try:
            with self._report_unavailable_neighbours():
                for parcel in parcels:
                    inbox.store_block(parcel)
                if self._level:
                    before = self._level - 1
                    inbox.check_blocks(self._plan.format_level(before), self._plan.tasks[before])

            def push_output(push: Callable[[tuple[int, bytes]], None]) -> None:
                with self._report_unavailable_neighbours():
                    self._process_level(inbox, lambda shard, parcel: push((shard, parcel)))

            yield from iterate_pushed_items(push_output)
        finally:
            self._wanted = False
            inbox.close()

    @contextmanager
    def _report_unavailable_neighbours(self) -> Iterator[None]:
        """Reports an unavailable disk or store to the server. The server then ends the complete
        section and retries the section later.
        """
        try:
            yield
        except Exception as error:
            broken = describe_failed_attempt(self._attempt, error, self._host.scratch)
            if broken.kind is FailureKind.UNAVAILABLE:
                self._host.report_end(broken)
            raise

    def _process_level(self, inbox: SectionInbox, send: Send) -> None:
        is_last = self._level == len(self._plan.levels) - 1
        shards = 1 if is_last else self._section.shards
        outbox = SectionOutbox(self._source, shards, send, self._budget // _WAITING_SHARE)
        seen = (InputDigestCount(self._level, inbox.input_digest, 1),) if self._level else ()
        own = SectionReply(((self._level, 1),), seen)
        if not inbox.is_incomplete:
            own = merge_section_replies((own, self._run_bundles(inbox, outbox)))
        reply = merge_section_replies((*inbox.replies, own))
        outbox.send_remaining_rows(reply, broken=inbox.is_incomplete or reply.end is not None)

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
        return Input(Data(rows, DataStatistics(rows.count, rows.size, MIN_TIMESTAMP, shard, None)))
