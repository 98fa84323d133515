"""A running job: its sections in the order of their needs, its end, and all it must tell."""

from __future__ import annotations

import itertools
import logging
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.records import Importance, JobMetrics, JobState
from beam_runner_worker.records import JobContext, Severity

from beam_spark_executor.channel.messages import (
    Endpoint,
    ExternalWorkerStarted,
    FromWorker,
    Logged,
    Progress,
    StageWork,
    TaskBroke,
    UserCodeFailed,
)
from beam_spark_executor.channel.server import WorkerLink
from beam_spark_executor.driver.metrics import MetricsTally
from beam_spark_executor.driver.processes import JobProcesses
from beam_spark_executor.driver.section import SectionFrame, SectionJob
from beam_spark_executor.driver.spark_jobs import SparkJobs
from beam_spark_executor.plan import JobPlan, SectionPlan
from beam_spark_executor.task.entry import SectionRef
from beam_spark_executor.task.files import Piece
from beam_spark_executor.task.rows import StoredFile, TaskFailure, TaskReply

SECTION_ATTEMPTS = 4
_TEARDOWN_SECONDS = 10.0
_ABORT_SECONDS = 3.0
_CANCEL_AGAIN_SECONDS = 0.5
_IMPORTANCE = {
    Severity.TRACE: Importance.DEBUG,
    Severity.DEBUG: Importance.DEBUG,
    Severity.INFO: Importance.DETAILED,
    Severity.NOTICE: Importance.BASIC,
    Severity.WARN: Importance.WARNING,
    Severity.ERROR: Importance.ERROR,
    Severity.CRITICAL: Importance.ERROR,
}
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class _Outcome:
    """How a section ended: with replies, or with an error."""

    section: SectionPlan
    key: str
    replies: list[TaskReply] = attrs.field(factory=list)
    error: str = ""


class RunningJob:
    """A job from RUNNING to its terminal state. Implements the channel's ``JobPeer`` and the Job
    API's ``JobHandle``.
    """

    def __init__(
        self,
        plan: JobPlan,
        reporter: JobReporter,
        spark: SparkJobs,
        endpoint: Endpoint,
        folder: Path,
        artifact: Callable[[str], Iterator[bytes]],
        on_end: Callable[[RunningJob], None],
    ) -> None:
        self._plan = plan
        self._reporter = reporter
        self._spark = spark
        self._endpoint = endpoint
        self._folder = folder
        self._artifact = artifact
        self._on_end = on_end
        self._metrics = MetricsTally()
        self._processes = JobProcesses()
        self._section_jobs: dict[str, SectionJob] = {}
        self._files: dict[str, list[StoredFile]] = {}
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._cancelled = False
        self._failure: TaskFailure | None = None
        self._broken: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name=f"job-{self.job_id}", daemon=True)

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._plan.context.job_id

    def start(self) -> None:
        """Starts the job on a thread of its own."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Waits for the end; whether it came within the limit."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # The Job API's handle.

    def cancel(self) -> None:
        """Stops the job, whatever user code is doing."""
        self._cancelled = True
        self._stop()

    def metrics(self) -> JobMetrics:
        """All metrics so far."""
        return self._metrics.totals()

    # The channel's peer.

    def context(self) -> JobContext:
        """What all stages share."""
        return self._plan.context

    def stage_work(self, section: str, stage_id: str) -> StageWork:
        """The work of a stage in an attempt at a section."""
        return self._section_jobs[section].stage_work(stage_id)

    def pieces(self, section: str, source: str) -> tuple[tuple[Piece, ...], ...]:
        """The pieces of a buffer's files for each task that reads them."""
        return self._section_jobs[section].pieces(source)

    def artifact(self, sha256: str) -> Iterator[bytes]:
        """A staged file in pieces."""
        return self._artifact(sha256)

    def attached(self, link: WorkerLink) -> None:
        """A worker process begins."""
        self._processes.attached(link)

    def detached(self, link: WorkerLink) -> None:
        """A worker process has ended."""
        self._processes.detached(link)

    def received(self, link: WorkerLink, message: FromWorker) -> None:
        """A worker process says something."""
        match message:
            case Progress(task, metrics):
                self._metrics.progressed(task, metrics)
            case Logged(records):
                for record in records:
                    text = f"{record.message}\n{record.trace}" if record.trace else record.message
                    importance = _IMPORTANCE.get(record.severity, Importance.DETAILED)
                    self._reporter.message(importance, text, record.transform_id or None)
            case UserCodeFailed(_, failure):
                self._fail(failure)
            case TaskBroke(task, reason):
                self._broken[task.section] = reason
                _LOGGER.warning("job %s: task %s broke: %s", self.job_id, task, reason)
            case ExternalWorkerStarted():
                self._processes.external_worker(link, message)
            case _:
                pass

    # The job's own thread.

    def _run(self) -> None:
        error = ""
        try:
            self._reporter.state(JobState.RUNNING)
            error = self._run_sections()
        except Exception as unexpected:
            _LOGGER.exception("job %s failed in the server", self.job_id)
            error = f"the server failed: {type(unexpected).__name__}: {unexpected}"
        finally:
            self._stopping.set()
            self._clean_up(succeeded=not error and not self._cancelled)
            self._report_end(error)
            self._on_end(self)

    def _run_sections(self) -> str:
        """Runs every section once all it needs is committed; gives the error, or nothing."""
        waiting = dict(self._plan.sections)
        done: set[str] = set()
        running = 0
        while waiting or running:
            ready = [s for s in waiting.values() if s.needs <= done]
            for section in ready:
                del waiting[section.section_id]
                self._spark.spawn(self._run_section, section)
                running += 1
            outcome = self._outcomes.get()
            running -= 1
            if outcome.error or self._stopping.is_set():
                self._stop()
                self._wait_for_stopped(running)
                return self._failure_text() or outcome.error
            self._commit(outcome)
            done.add(outcome.section.section_id)
        return ""

    def _wait_for_stopped(self, running: int) -> None:
        """Waits for sections that were told to stop.

        A Spark job that was about to start when its group was cancelled is not in that group yet;
        so they are cancelled again until none is left.
        """
        while running:
            try:
                self._outcomes.get(timeout=_CANCEL_AGAIN_SECONDS)
                running -= 1
            except queue.Empty:
                self._spark.cancel()

    def _run_section(self, section: SectionPlan) -> None:
        """Runs one section, again if Spark says that what it recomputed came out differently."""
        outcome = _Outcome(section, section.section_id, error="the job was stopped")
        try:
            for attempt in range(SECTION_ATTEMPTS):
                if self._stopping.is_set():
                    break
                outcome = self._attempt_section(section, f"{section.section_id}-{attempt}")
                if not self._spark.is_worth_repeating(outcome.error):
                    break
                _LOGGER.info("job %s: section %s runs again", self.job_id, section.section_id)
        finally:
            self._outcomes.put(outcome)

    def _attempt_section(self, section: SectionPlan, key: str) -> _Outcome:
        job = SectionJob(
            self._plan,
            section,
            {buffer_id: tuple(files) for buffer_id, files in self._files.items()},
            self._spark.tasks,
            str(self._folder),
        )
        self._section_jobs[key] = job
        ref = SectionRef(self._endpoint, self.job_id, key)
        frame = SectionFrame(self._spark.session, self._spark.pools, self._spark.slot, job, ref)
        try:
            replies = frame.replies()
        except Exception as error:
            if self._stopping.is_set():
                return _Outcome(section, key, error="the job was stopped")
            _LOGGER.debug("job %s: section %s failed", self.job_id, key, exc_info=True)
            return _Outcome(
                section, key, error=self._spark.explain(error, self._broken.get(key, ""))
            )
        for reply in replies:
            if reply.failure is not None:
                self._fail(reply.failure)
                return _Outcome(section, key, error=reply.failure.summary)
        return _Outcome(section, key, replies)

    def _commit(self, outcome: _Outcome) -> None:
        """Takes over what a section's tasks have written and counted; nothing else is ever read."""
        for reply in outcome.replies:
            for file in reply.files:
                self._files.setdefault(file.buffer_id, []).append(file)
        metrics = itertools.chain.from_iterable(reply.metrics for reply in outcome.replies)
        self._metrics.committed(outcome.key, metrics)

    def _fail(self, failure: TaskFailure) -> None:
        if self._failure is None and not self._stopping.is_set():
            self._failure = failure
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self._spark.cancel()

    def _failure_text(self) -> str:
        failure = self._failure
        if failure is None:
            return ""
        return f"{failure.summary} [while running '{failure.transform}']\n{failure.trace}".rstrip()

    def _clean_up(self, *, succeeded: bool) -> None:
        gone = not self._cancelled and self._processes.end(
            abort=False, seconds=_TEARDOWN_SECONDS if succeeded else _ABORT_SECONDS
        )
        if not gone:
            gone = self._processes.end(abort=True, seconds=_ABORT_SECONDS)
        self._spark.close(workers_gone=gone)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _report_end(self, error: str) -> None:
        if self._cancelled and self._failure is None:
            self._reporter.state(JobState.CANCELLED)
        elif error:
            self._reporter.state(JobState.FAILED, error)
        else:
            self._reporter.state(JobState.DONE)
