"""Sections (groups of Beam stages), each of which runs as one Spark job. A section consists of
levels; each level is one Spark stage, with Spark's shuffle between them.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
from beam_runner_engine.scheduler.events import BundleDone
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.bundles.binding import bind_worker_process
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, Endpoint, FromWorker, RunBundle
from beam_runner_runtime.memory import compute_section_budget
from beam_runner_runtime.processes.allocation import retain_freed_memory
from beam_runner_runtime.sections.ends import SectionEnd
from beam_runner_runtime.sections.inbox import SectionInbox
from beam_runner_runtime.sections.plan import SectionPlan, explain_section_refusal
from beam_runner_runtime.sections.process import get_section_process
from beam_runner_runtime.sections.replies import SectionReply, merge_section_replies
from beam_runner_runtime.sections.shuffle_consistency import (
    find_level_with_mixed_input,
    format_section_refusal,
)
from beam_runner_runtime.sections.task import SectionOrder, SectionTask, prepare_section_once
from beam_runner_runtime.sections.wire import decode_section_reply, encode_section_reply
from beam_spark_io.spark.reasons import find_failure_reason, find_worker_error
from pyspark import Broadcast, SparkContext, TaskContext

from beam_spark_executor.spark.exchange import (
    Exchanged,
    Parcels,
    SparkShuffles,
    create_empty_inputs,
    gather_results,
)
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.python_daemon import register_exit_hook

_CALL_SITE = "callSite.short"
"""Property for the name of the Spark stage of an RDD that this thread creates."""
_OURS = re.compile(r"^beam_(runner|spark)_[\w.]+: ")
"""Pattern that finds errors of the runner's own classes in a traceback. For these errors, the
message is shown without the traceback.
"""
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class SectionRef:
    """Reference to a section (several Beam stages) of a job, for the Spark tasks of the section.

    Attributes:
        name: name that is unique to this attempt at the section.
        order: broadcast order of the section.
    """

    endpoint: Endpoint
    job_id: str
    name: str
    order: Broadcast[SectionOrder]


@attrs.define(eq=False)
class SparkSectionRunner:
    """Runs the sections (groups of Beam stages) of one job, each as one Spark job. Thread-safe.

    Args:
        shards: number of Spark tasks per level (Spark stage), except for the first level.
    """

    _context: SparkContext
    _pools: WorkerPools
    _slot: WorkerSlot
    _endpoint: Endpoint
    _job_id: str
    _plan: JobPlan
    _shards: int
    _ends: dict[Attempt, BundleFailure | SectionRefusal | None] = attrs.field(
        init=False, factory=dict
    )

    def run(self, order: RunBundle, title: str) -> SectionEnd:
        """Runs a section as one Spark job, and returns the section's result. The caller must use a
        separate thread.

        Args:
            order: a bundle with parts.
            title: name of the job on Spark's pages.
        """
        attempt = order.attempt
        if reason := explain_section_refusal(self._plan, order.bundle.parts):
            return SectionRefusal(attempt, reason)
        stages = SectionPlan.from_parts(self._plan, order.bundle.parts, self._shards)
        self._ends[attempt] = None
        try:
            reply = self._run_spark_job(order, stages, title)
        except Exception as error:
            return self._ends[attempt] or BundleFailure(attempt, None, _find_failure_reason(error))
        finally:
            self._ends.pop(attempt)
        return self._make_section_result(attempt, stages, reply)

    def handle_section_message(self, message: FromWorker) -> bool:
        """Handles a message from a worker process. If the message reports that a section must end,
        cancels the section's Spark job.

        Returns:
            Whether the message was about a running section.
        """
        if not isinstance(message, BundleFailure | SectionRefusal):
            return False
        if message.attempt not in self._ends:
            return False
        self._ends[message.attempt] = self._ends[message.attempt] or message
        self._context.cancelJobsWithTag(self._make_spark_job_tag(message.attempt))
        return True

    def _run_spark_job(self, order: RunBundle, stages: SectionPlan, title: str) -> SectionReply:
        context = self._context
        section = context.broadcast(SectionOrder(order, self._shards))
        self._pools.set_spark_job_group(self._slot, f"beam-{self._job_id}", title)
        context.addJobTag(self._make_spark_job_tag(order.attempt))
        exchanges = SparkShuffles(context)
        try:
            with self._pools.use_workers_of_slot(self._slot):
                ref = SectionRef(self._endpoint, self._job_id, order.name, section)
                last = self._create_section_tasks(stages, ref, exchanges)
            (encoded,) = last.collect()
        finally:
            context.clearJobTags()
            context.setLocalProperty(_CALL_SITE, None)
            exchanges.remove_files()
            section.destroy()
        return decode_section_reply(encoded)

    def _create_section_tasks(
        self, stages: SectionPlan, ref: SectionRef, exchanges: SparkShuffles
    ) -> Exchanged:
        """Returns the Spark tasks of a section, level by level, and the final task, which gathers
        the replies of the other tasks.

        The final task runs no user code, because Spark can't retry it after it has started to
        return results.
        """
        parcels = create_empty_inputs(self._context, stages.tasks[0])
        for level, after in enumerate((*stages.tasks[1:], 1)):
            self._context.setLocalProperty(_CALL_SITE, stages.format_level(level))
            task = _LevelTasks(ref, level)
            parcels = exchanges.shuffle_by_shard(parcels, task, after, stages.format_level(level))
        return gather_results(
            parcels, _GatherTask(stages.format_level(len(stages.levels) - 1), stages.tasks[-1])
        )

    def _make_section_result(
        self, attempt: Attempt, stages: SectionPlan, reply: SectionReply
    ) -> SectionEnd:
        if reply.end is not None:
            return reply.end
        level = find_level_with_mixed_input(reply, stages.tasks)
        if level is not None:
            text = format_section_refusal(stages.format_level(max(0, level - 1)))
            _LOGGER.warning("job %s: %s", self._job_id, text)
            return BundleFailure(attempt, None, text)
        outputs = tuple(output for one in reply.outputs for output in one.outputs)
        done = BundleDone(attempt.bundle, attempt.attempt, outputs)
        return BundleReply(done, None, reply.metrics)

    def _make_spark_job_tag(self, attempt: Attempt) -> str:
        return f"beam-{self._job_id}-section-{attempt.bundle}-{attempt.attempt}"


@attrs.frozen
class _LevelTasks:
    """Tasks of one level, called by Spark's Python workers."""

    ref: SectionRef
    level: int

    def __call__(self, number: int, parcels: Parcels) -> Iterator[tuple[int, bytes]]:
        ref = self.ref
        retain_freed_memory(compute_section_budget())
        process = get_section_process(
            bind_worker_process(ref.endpoint, ref.job_id, register_exit_hook)
        )
        prepared = prepare_section_once(ref.name, lambda: (process.work.plan, ref.order.value))
        context = TaskContext.get()
        assert context is not None
        task = SectionTask(process, prepared, self.level, number, context.taskAttemptId())
        return task.run_task(parcels)


@attrs.frozen
class _GatherTask:
    """Final Spark task of a section, which gathers the replies of the other tasks."""

    last_level: str
    sources: int

    def __call__(self, parcels: Parcels) -> Iterator[bytes]:
        inbox = SectionInbox(Path(os.devnull), sys.maxsize)
        for parcel in parcels:
            inbox.store_block(parcel)
        inbox.check_blocks(self.last_level, self.sources)
        yield encode_section_reply(merge_section_replies(inbox.replies))


def _find_failure_reason(failure: Exception) -> str:
    """Returns the reason of a Spark failure in one line: the error of the Python worker, if one caused the failure."""
    error = find_worker_error(str(failure))
    return _OURS.sub("", error) if error else find_failure_reason(failure)
