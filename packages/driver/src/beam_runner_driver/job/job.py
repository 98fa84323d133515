"""Running job, with one thread that handles all its events from RUNNING to the terminal state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import attrs
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.jobs import Importance, JobMetrics, JobState
from beam_runner_model.observation import Execution, StageTimeSeries, ThreadStack
from beam_runner_model.threads import start_essential_thread
from beam_runner_runtime.channel.messages import FromWorker, JobWork, LogBatch, StackDump
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.shutdown.causes import ShutdownEvent
from beam_runner_runtime.shutdown.life import StateMachine
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import JobPhase
from beam_runner_storage.journal.errors import JournalFenced, JournalUnavailable
from beam_runner_storage.journal.journal import Journal

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.coordination.metrics import JobMetricsSum
from beam_runner_driver.job.inbox import EventQueue
from beam_runner_driver.job.job_events import (
    CancelRequested,
    DrainRequested,
    Item,
    LaneEnded,
    ProcessLost,
    ProcessMessage,
    Request,
    SectionEnded,
    StartPossible,
    SuspendRequested,
    is_loss_event,
)
from beam_runner_driver.job.job_retention import EndedJobRetention
from beam_runner_driver.job.job_shutdown import end_lanes_and_sections, end_processes
from beam_runner_driver.job.requests import JobRequests
from beam_runner_driver.job.switch import JobSwitch
from beam_runner_driver.job.watch import JobWatchdog
from beam_runner_driver.lanes.processes import JobProcesses
from beam_runner_driver.lanes.slots import JobSlots
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.retrying_journal import Outage, RetryingJournal
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_driver.ports import JobPlacement, RunReporter
from beam_runner_driver.quarantine.quarantine_files import QuarantineFiles
from beam_runner_driver.reports.condition import JobMonitor
from beam_runner_driver.reports.observing import JobSnapshots
from beam_runner_driver.reports.reporting import report_end, report_logs
from beam_runner_driver.reports.waiting import make_external_system_wait

_LOGGER = logging.getLogger(__name__)


class RunningJob:
    """Job between RUNNING and its terminal state. Implements the channel's ``JobMessageHandler`` and the Job
    API's ``JobHandle`` and ``JobObserver``.

    Args:
        ledger: durable record of the job's committed state.
        journal: journal of the job.
        reporter: receiver of states, messages and logs.
        placement: system that starts and stops the worker processes.
        slots: slots of the cluster.
        settings: settings of the job.
        artifact: function that reads a staged file, given its SHA-256 hash.
        on_end: function that is called after the job's thread has ended.
    """

    def __init__(
        self,
        ledger: JobLedger,
        journal: Journal,
        reporter: RunReporter,
        placement: JobPlacement,
        slots: JobSlots,
        settings: JobSettings,
        artifact: Callable[[str], Iterator[bytes]],
        on_end: Callable[[RunningJob], None],
    ) -> None:
        self._plan, self._ledger = ledger.plan, ledger
        self._reporter = reporter
        self._placement = placement
        self._slots = slots
        self._settings = settings
        self._artifact = artifact
        self._on_end = on_end
        self._metrics = JobMetricsSum(ledger.metrics.infos())
        self._processes = JobProcesses(settings.files.folder)
        self._condition = JobMonitor(self._plan, reporter, self._processes)
        self._observing = JobSnapshots(
            self._plan, self._processes.list_links, lambda: placement.interface
        )
        self._inbox = EventQueue()
        self._retention = EndedJobRetention(ledger, journal, settings)
        seconds = None if (limit := ledger.limits.outage_limit) is None else limit / 1000
        patient = RetryingJournal(journal, seconds, self._wait_for_disk)
        self._quarantine = QuarantineFiles(settings.quarantine, ledger, patient)
        self._coordinator = JobCoordinator(
            ledger,
            patient,
            self._metrics,
            lambda number: placement.start_lane(
                number, lambda lane, error: self._inbox.add_event(LaneEnded(lane, error))
            ),
            placement,
            lambda end: self._inbox.add_event(SectionEnded(end)),
            slots,
            settings,
        )
        self._switch = JobSwitch(ledger, self._coordinator, patient)
        self._requests = JobRequests(ledger, self._coordinator, settings.files, reporter)
        self._watch = JobWatchdog(self.job_id, reporter, self._observing.collect_stacks)
        self._life = StateMachine(JobPhase.WAITING, f"job {ledger.plan.context.job_id}")
        self._suspended_at: float | None = None
        self._cancelled_at: float | None = None
        self._last_metrics: JobMetrics | None = None
        self._thread: threading.Thread | None = None

    @property
    def job_id(self) -> str:
        """Id of the job."""
        return self._plan.context.job_id

    def start(self) -> None:
        """Starts the job on a separate thread."""
        self._thread = start_essential_thread(
            self._run_job_thread, f"job-{self.job_id}", self._fail_job
        )

    def wait_for_end(self, seconds: float) -> bool:
        """Waits up to `seconds` for the end of the job's thread. Returns whether the thread has ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # Methods that the Job API calls (``JobHandle`` and ``JobObserver``).

    def cancel(self) -> None:
        """Cancels the job, even during user code."""
        self._inbox.add_event(CancelRequested())

    def drain(self) -> None:
        """Ends the job's sources. The job ends after it has processed their output."""
        self._inbox.add_event(DrainRequested())

    def suspend(self) -> None:
        """Stops the work, and leaves the job unfinished, so that another server can resume it."""
        self._inbox.add_event(SuspendRequested())

    def add_request(self, request: Request) -> None:
        """Queues a request for the job's thread. The caller waits for the answer in the request object."""
        self._inbox.add_event(request)

    def get_metrics(self) -> JobMetrics:
        """Returns all metrics up to now, including the metrics of the stages."""
        if self._last_metrics is not None:
            return self._last_metrics
        self._observing.record_request()
        return self._add_stage_metrics(self._metrics.compute_totals())

    def _add_stage_metrics(self, totals: JobMetrics) -> JobMetrics:
        return attrs.evolve(totals, attempted=(*totals.attempted, *self._condition.list_metrics()))

    def get_execution(self) -> Execution:
        """Returns the current activity of the job."""
        return self._observing.get_latest_execution()

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the recorded history of the job's stages."""
        return self._condition.history.make_time_series()

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        """Returns the current stacks of the worker processes."""
        return self._observing.collect_stacks()

    # Methods that the channel server calls (``JobMessageHandler``), on any thread.

    def make_job_work(self) -> JobWork:
        return self._settings.make_job_work(
            self._plan, self._ledger.shards, self._coordinator.clock.now()
        )

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        return self._artifact(sha256)

    def handle_worker_attached(self, link: WorkerLink) -> None:
        """Handles a new worker process."""
        self._processes.add_process(link)

    def handle_worker_detached(self, link: WorkerLink) -> None:
        """Handles the exit of a worker process: queues an event for the job's thread."""
        if self._processes.remove_process(link):
            link.end = self._processes.wait_for_exit(link)
        self._inbox.add_event(ProcessLost(link))

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        """Handles a message of a worker process."""
        match message:
            case LogBatch(records):
                worker = f"{link.hello.host}:{link.hello.pid}"
                report_logs(self._reporter, records, worker)
            case StackDump():
                self._observing.handle_stacks(link, message)
            case _ if not (
                self._processes.handle_message(link, message)
                or self._placement.handle_section_message(message)
            ):
                self._inbox.add_event(ProcessMessage(link, message))

    # Methods that only the job's thread calls.

    def _run_job_thread(self) -> None:
        try:
            self._run_until_end()
            self._finish_job()
        finally:
            self._on_end(self)
            self._switch.close()

    def _fail_job(self, error: BaseException) -> None:
        """Reports the job as FAILED after an unexpected error in its thread."""
        if self._suspended_at is not None:
            return
        reason = f"the server failed: {type(error).__name__}: {error}"
        end = self._ledger.end = self._ledger.end or FailJob(reason, kind=JobFailureKind.SERVER)
        try:
            gone = self._processes.end_processes(abort=True, seconds=LIMITS.abort_seconds)
            self._placement.cancel()
            self._placement.close(workers_gone=gone)
            self._slots.release_all_slots_of_job()
        finally:
            report_end(self._reporter, self._ledger, end)

    def _run_until_end(self) -> None:
        try:
            self._wait_for_start_permission()
            self._life.apply_cause(ShutdownEvent.BEGUN)
            self._reporter.report_state(JobState.RUNNING)
            with self._observing.renew():
                self._run_until_job_ends()
        except JournalFenced as fenced:
            # Another server owns the job now, so don't report the job's end or remove its files.
            _LOGGER.warning(
                "stopping job %s, which another server owns now: %s", self.job_id, fenced
            )
            self._ledger.end, self._suspended_at = None, time.monotonic()
        except JournalUnavailable as away:
            self._end_without_journal(away)
        except Exception as unexpected:
            if not self._end_if_placement_lost():
                _LOGGER.exception("job %s failed because of an error in the server", self.job_id)
                reason = f"the server failed: {type(unexpected).__name__}: {unexpected}"
                end = FailJob(reason, kind=JobFailureKind.SERVER)
                self._ledger.end = self._ledger.end or end

    def _wait_for_start_permission(self) -> None:
        """Waits until the job may start, or until another event, such as a cancellation, arrives."""
        while not self._slots.try_start_job(lambda: self._inbox.add_event(StartPossible())):
            item = self._inbox.wait_for_event(LIMITS.job_turn_seconds)
            if item is not None and not isinstance(item, StartPossible):
                self._inbox.add_event(item)
                return

    def _run_until_job_ends(self) -> None:
        """Runs the job from its committed state until it ends."""
        self._coordinator.resume_job()
        while not (self._ledger.end or self._switch.is_decided or self._can_suspend_now()):
            taken = time.monotonic()
            items = self._take_events()
            if any(map(is_loss_event, items)) and self._end_if_placement_lost():
                return
            for item in items:
                self._handle_event(item)
            self._coordinator.run_round()
            self._switch.advance()
            self._quarantine.write_pending_files()
            self._observing.publish_wait_reason(None)
            self._enforce_cancel()
            asked = self._observing.has_recent_request
            self._condition.check_job(self._ledger, self._coordinator, asked=asked)
            if asked:
                condition = self._condition
                self._observing.take_snapshot(self._coordinator, condition.waits, condition.still)
            self._watch.run_check_if_due(self._coordinator, taken)

    def _end_if_placement_lost(self) -> bool:
        """Ends or suspends the job if its placement (such as the Spark application) is lost. Returns whether it is."""
        if self._placement.is_alive:
            return False
        if self._settings.resumable:
            _LOGGER.warning("job %s is suspended until the next server resumes it", self.job_id)
            self._suspended_at = time.monotonic()
        else:
            end = FailJob(self._placement.loss_message, kind=JobFailureKind.PLACEMENT)
            self._ledger.end = self._ledger.end or end
        return True

    def _wait_for_disk(self, outage: Outage) -> bool:
        """Waits while the journal's disk is unavailable. Returns False if the job must end or stop."""
        wait = make_external_system_wait(outage, self._coordinator.clock.now())
        self._condition.report_outage(outage)
        self._observing.publish_wait_reason(wait)
        goes_on = self._inbox.wait_without_end_request(max(0.0, outage.next_try - time.monotonic()))
        return goes_on and self._placement.is_alive

    def _end_without_journal(self, away: JournalUnavailable) -> None:
        """Ends or suspends the job while the journal is unavailable. Uncommitted work is lost."""
        wishes = self._inbox.take_events(0.0)
        if any(isinstance(item, CancelRequested) for item in wishes):
            self._ledger.end = self._ledger.end or FinishJob(Outcome.CANCELLED)
        elif any(isinstance(item, SuspendRequested) for item in wishes):
            self._suspended_at = time.monotonic()
        elif not self._end_if_placement_lost():
            reason = f"Can't write the journal of the job: {away}"
            end = FailJob(reason, kind=JobFailureKind.JOURNAL)
            self._ledger.end = self._ledger.end or end

    def _can_suspend_now(self) -> bool:
        """Returns whether a suspension was requested and the job can stop now: all finished bundles are
        committed, or the time limit is over.
        """
        if self._suspended_at is None:
            return False
        late = time.monotonic() > self._suspended_at + LIMITS.suspend_seconds
        return late or self._coordinator.is_suspended

    def _enforce_cancel(self) -> None:
        """Cancels all tasks of the job's placement if a cancelled job doesn't end in time."""
        if self._cancelled_at is None or self._ledger.end is not None:
            return
        if time.monotonic() > self._cancelled_at + LIMITS.cancel_seconds:
            self._placement.cancel()

    def _take_events(self) -> list[Item]:
        """Returns the new events. Waits for the first event, but at most until the next scheduled work."""
        coordinator, switch = self._coordinator, self._switch
        alarms = (LIMITS.job_look_seconds, coordinator.seconds_to_alarm, switch.seconds_left)
        return self._inbox.take_events(min(alarm for alarm in alarms if alarm is not None))

    def _handle_event(self, item: Item) -> None:
        self._switch.handle_event(item)
        self._requests.handle_event(item)
        match item:
            case ProcessMessage(link, message):
                self._coordinator.handle_message(link, message)
            case ProcessLost(link):
                self._coordinator.handle_process_exit(link)
            case LaneEnded(number, error):
                self._coordinator.handle_lane_end(number, error)
            case SectionEnded(end):
                self._coordinator.handle_section_end(end)
            case CancelRequested():
                self._cancelled_at = time.monotonic()
                self._life.apply_cause(ShutdownEvent.CANCEL_REQUESTED)
                self._coordinator.cancel_job()
            case DrainRequested():
                self._coordinator.drain_job()
            case SuspendRequested():
                self._suspended_at = time.monotonic()
                self._life.apply_cause(ShutdownEvent.SUSPEND_REQUESTED)
                self._coordinator.suspend_job()

    # Methods that end the job.

    def _finish_job(self) -> None:
        end = self._ledger.end
        finished = end.outcome if isinstance(end, FinishJob) else None
        in_order = finished is not Outcome.CANCELLED and self._suspended_at is None
        self._life.apply_cause(ShutdownEvent.IN_ORDER if in_order else ShutdownEvent.AT_ONCE)
        # Before a cancellation, give workers time to stop their remote SDK harnesses.
        grace = LIMITS.give_up_seconds if self._plan.needs_sdks else 0.0
        parts = (self._coordinator, self._placement, self._inbox, self._processes)
        end_lanes_and_sections(*parts, in_order=in_order, grace=grace)
        # Compute the metrics before the teardown, whose metrics don't count.
        totals = self._metrics.compute_totals()
        gone = end_processes(self._processes, self._life)
        # Add the stages' metrics last: processes report their counts of bundles when they exit.
        self._last_metrics = self._add_stage_metrics(totals)
        self._placement.close(workers_gone=gone)
        self._slots.release_all_slots_of_job()
        if self._switch.is_decided and self._switch.commit():
            self._reporter.report_state(JobState.UPDATED)
            self._settings.files.leave_files_to_successor()
        # A server shutdown records no end of the job, so that the next server resumes the job from
        # the journal.
        if end is not None:
            self._quarantine.finish(self._reporter)
            if kept := self._retention.retain_state_or_free_space(end):
                self._reporter.report_message(Importance.BASIC, kept)
            if report_end(self._reporter, self._ledger, end):
                self._retention.delete_unretained_data()
