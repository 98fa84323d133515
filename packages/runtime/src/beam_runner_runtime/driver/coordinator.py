"""Coordinator of one job in the server. It connects the engine to journal, lanes and sections.

The coordinator appends an entry to the journal to commit it, and then applies it to the ledger.
While the loop inside a task owns the scheduler, new events wait until the loop returns it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.dispatch.lease import SchedulerLease
from beam_runner_engine.dispatch.small_work import are_small_bundles
from beam_runner_engine.scheduler.commands import Bundle, Command, OpenBundles
from beam_runner_engine.scheduler.events import (
    Abort,
    AttemptsLost,
    BundleFailed,
    Cancel,
    Drain,
    GiveWay,
    Progress,
    SectionRefused,
    SplitDone,
)
from beam_runner_model.failures import EndingKind

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, LostProcess, describe_loss
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    BundleReply,
    Entry,
    FromWorker,
    LaneOpened,
    LoopFailure,
    LoopProgress,
    LoopReply,
    NeighbourWaitStatus,
    SplitReply,
    SplitRequest,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.driver.finalizers import FinalizationCallbacks
from beam_runner_runtime.driver.journal_codec import encode_entries
from beam_runner_runtime.driver.lane_failures import LaneFailures
from beam_runner_runtime.driver.lanes import LaneDispatcher, LostWork
from beam_runner_runtime.driver.ledger import JobLedger
from beam_runner_runtime.driver.metrics import MetricsTally
from beam_runner_runtime.driver.orders import OrderFactory
from beam_runner_runtime.driver.orphan_files import OrphanFiles
from beam_runner_runtime.driver.patient_journal import PatientJournal
from beam_runner_runtime.driver.settings import JobSettings
from beam_runner_runtime.driver.slots import JobSlots
from beam_runner_runtime.driver.watermark_checks import find_overtaken_data
from beam_runner_runtime.driver.worker_outages import WorkerOutages
from beam_runner_runtime.memory import OutOfMemoryDetector
from beam_runner_runtime.sections.ends import SectionEnd
from beam_runner_runtime.sections.ports import SectionHost
from beam_runner_runtime.sections.running import SectionRunner
from beam_runner_runtime.tuning import TUNING

_ENTRIES_PER_SNAPSHOT = 2000
_LOGGER = logging.getLogger(__name__)


class JobCoordinator:
    """Coordinator of one job. Only the job's thread can call its methods.

    Args:
        ledger: committed state of the job, whose open bundles run first.
        journal: journal of the job.
        metrics: sum of committed and attempted metrics.
        start_lane: function that starts a lane.
        host: runner of sections.
        on_section_end: callback, on any thread, that leads to a call of `handle_section_end`.
        slots: slots of the cluster.
        settings: settings of the job.

    Attributes:
        ledger: committed state of the job.
        clock: processing time of the job.
        lanes: lanes of the job.
        sections: running sections.
        moved: time (``time.monotonic``) of the latest commit or progress.
        broken_loops: number of failed loops inside tasks.
        outages: outages that worker processes wait for.
        lane_failures: failed starts of lanes.
    """

    def __init__(
        self,
        ledger: JobLedger,
        journal: PatientJournal,
        metrics: MetricsTally,
        start_lane: Callable[[int], None],
        host: SectionHost,
        on_section_end: Callable[[SectionEnd], None],
        slots: JobSlots,
        settings: JobSettings,
    ) -> None:
        self.ledger, self.moved = ledger, time.monotonic()
        self.clock = ProcessingClock(ledger.processing_time)
        self.broken_loops = 0
        self.outages = WorkerOutages()
        self._journal = journal
        self._metrics = metrics
        self._settings = settings
        self._slots = slots
        self._takes_turns = ledger.plan.shares_one_interpreter
        sources = ledger.plan.source_stage_ids()
        orders = OrderFactory(ledger, self.clock, settings)
        self.lanes = LaneDispatcher(
            start_lane,
            orders.make_bundle_order,
            lambda: orders.make_loop_order(self._loop.number),
            settings.cores,
            settings.most_lanes,
            slots,
            lambda bundle: bundle.stage in sources,
            takes_turns=self._takes_turns,
        )
        self.sections = SectionRunner(
            host,
            ledger.plan,
            orders.make_bundle_order,
            orders.make_job_work,
            on_section_end,
            min(ledger.shards, settings.cores),
            slots,
        )
        self._job_id = ledger.plan.context.job_id
        self._orphan_files = OrphanFiles(settings.files, settings.epoch)
        self._waiting: list[Entry] = []
        self._finalizers = FinalizationCallbacks()
        self._since_snapshot = 0
        self.lane_failures = LaneFailures(ledger.limits.outage_limit is None)
        self._driver: JobDriver[Entry] = JobDriver(self)
        pauses = (TUNING.loop_outgrown_pause_seconds, TUNING.loop_broken_pause_seconds)
        self._loop = SchedulerLease(*pauses)
        self._suspended = False
        self._kills = OutOfMemoryDetector()

    def resume_job(self) -> None:
        """Resumes the job from its committed state."""
        self.open(self.ledger.open_bundles)

    @property
    def seconds_to_alarm(self) -> float | None:
        """Seconds until `run_round` must run without a new event; None if no call is necessary."""
        if self._loop.is_out:
            return None
        wait = self._driver.compute_wake_delay(self.clock.now())
        alarms = (None if wait is None else wait / 1000, self.lanes.seconds_to_next_yield)
        return min((alarm for alarm in alarms if alarm is not None), default=None)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        """Handles a message of a worker process about a lane, a bundle or the loop."""
        match message:
            case LaneOpened(lane):
                self.lane_failures.reset_count()
                work = self.lanes.handle_opened_lane(lane, link)
                self.handle_loss(work, LostProcess().text, LostProcess())
            case BundleProgressed(attempt) if self.sections.is_running(attempt):
                self._metrics.record_progress(attempt, message.metrics, link.hello.folder)
            case BundleProgressed(attempt, starts=True):
                self.lanes.record_harness_start(link, attempt)
            case BundleProgressed(attempt, fraction, elapsed, metrics, waits, lingers):
                if self.lanes.record_progress(link, attempt, fraction, waits=waits):
                    self.moved = time.monotonic()
                if self.ledger.is_open(attempt) and not self._loop.is_out:
                    self._metrics.record_progress(attempt, metrics)
                    in_turns = self._takes_turns and waits is False
                    bundle = (attempt.bundle, attempt.attempt)
                    self._waiting.append(Progress(*bundle, fraction, elapsed, in_turns, lingers))
            case BundleReply():
                self.lanes.record_bundle_end(link, message.attempt)
                if self.ledger.is_open(message.attempt):
                    self._finalizers.record_process(link, message)
                self._waiting += self.lanes.add_lane_to_entries(link, (message,))
            case BundleFailure(attempt):
                self.lanes.record_bundle_end(link, attempt)
                self._waiting += self.lanes.add_lane_to_entries(link, (message.to_event(),))
            case SplitReply(done):
                if not done.residuals:
                    self.lanes.record_failed_yield(Attempt(done.bundle, done.attempt))
                self._waiting.append(done)
            case LoopProgress():
                self._commit_loop_progress(link, message)
            case LoopReply():
                self._handle_ended_loop(link, message)
            case LoopFailure():
                self._handle_failed_loop(link, message)
            case NeighbourWaitStatus():
                self.outages.handle_wait_message(link, message, time.monotonic())

    def handle_process_exit(self, link: WorkerLink) -> None:
        """Handles the exit of a worker process: schedules its files for deletion, and retries its work."""
        self._orphan_files.schedule_process_folder(link.hello)
        self.outages.remove_process(link)
        process = LostProcess(link.hello.host, link.hello.pid)
        self.handle_loss(self.lanes.handle_process_exit(link), process.text, process)

    def handle_lane_end(self, number: int, error: str) -> None:
        """Handles the end of a lane. `error` is empty after a normal end."""
        self.handle_loss(self.lanes.handle_lane_end(number), f"its lane failed: {error}")
        if not error:
            return
        _LOGGER.warning("job %s: lane failed: %s", self._job_id, error)
        pause = self.lane_failures.count_failure(error, time.monotonic())
        if pause is None:
            reason = f"failed to start worker processes; the last error: {error}"
            self._end_job(Abort(reason, EndingKind.PROCESSES))
        else:
            self.lanes.pause_lane_starts(pause)

    def handle_section_end(self, end: SectionEnd) -> None:
        """Queues the result of a section attempt for the next commit."""
        self._waiting.append(self.sections.handle_end(end))

    def cancel_job(self) -> None:
        """Cancels the job."""
        self._end_job(Cancel())

    def drain_job(self) -> None:
        """Drains the job: its sources end."""
        if self._loop.is_out and not self.lanes.request_loop_end():
            # The drain starts after the loop of bundles has run and ended, so queue it if no lane runs it.
            self.lanes.queue_loop()
        self._waiting.append(Drain())

    def _end_job(self, event: Abort | Cancel) -> None:
        """Ends the job. If a process runs the loop, the event waits until that process has exited."""
        if self._loop.is_out and not self.lanes.abort_loop():
            self._loop.end_lease()
        self._waiting.append(event)

    def suspend_job(self) -> None:
        """Suspends the job at shutdown: starts no bundle, lets bundles finish, and leaves the loop."""
        if self._loop.is_out and not self.lanes.request_loop_end():
            self._loop.end_lease()
        self._suspended = True

    @property
    def is_suspended(self) -> bool:
        """Whether a `suspend_job` is complete: no loop is active, and no bundle runs in a lane."""
        return self._suspended and not self._loop.is_out and not any(self.lanes.list_busy_lanes())

    def run_round(self) -> None:
        """Commits the events since the last call, and starts all bundles that can run."""
        if not self._loop.is_out:
            for attempt in self.lanes.take_yielding_bundles():
                self._waiting.append(GiveWay(attempt.bundle, attempt.attempt))
            entries, self._waiting = self._waiting, []
            self._driver.record_entries(entries, self.clock.now())
        if self.sections.poll_progress():
            self.moved = time.monotonic()
        if (cores := self._slots.cores) is not None:
            self.lanes.set_core_count(cores, cores * TUNING.lanes_per_core)
        if not self._suspended:
            self.lanes.assign_bundles()
        # Spark doesn't preempt tasks, so an idle lane blocks a slot that a section's task needs.
        self.lanes.close_idle_lanes(at_once=self.sections.has_sections)
        self._orphan_files.delete_due_files(self.ledger.list_needed_files)

    def handle_loss(self, loss: LostWork, reason: str, process: LostProcess | None = None) -> None:
        """Handles the loss of uncommitted work in a lane. `process` is the lost process."""
        reason += self._kills.describe_recent_kill() if loss.loop or loss.bundle is not None else ""
        if loss.loop and self._loop.is_out:
            self.take_loop_back(reason)
        if (bundle := loss.bundle) is not None:
            _LOGGER.warning("job %s: bundle %s: %s", self._job_id, bundle.number, reason)
            self._waiting.append(describe_loss(bundle, reason, process))

    @property
    def is_loop_lost(self) -> bool:
        """Whether the loop owns the scheduler, but no lane runs the loop."""
        return self._loop.is_out and not self.lanes.has_loop

    @property
    def is_settled(self) -> bool:
        """Whether the job has no active loop and no waiting event, so each open bundle is in a lane or section."""
        return not (self._loop.is_out or self._waiting or self._suspended)

    def take_loop_back(self, reason: str) -> None:
        """Returns the scheduler from the loop to the server. The loop's bundles run again."""
        self.broken_loops += 1
        self._loop.end_lost_loop(time.monotonic())
        self._orphan_files.schedule_loop_files(self._loop.number)
        _LOGGER.warning("job %s: loop failed, and its bundles run again: %s", self._job_id, reason)
        self._waiting.append(AttemptsLost())

    # Methods of the `Host` protocol, which the engine's driver calls.

    @property
    def next_wake(self) -> int | None:
        """Processing time (ms) of the next required scheduler tick."""
        return self.ledger.next_wake

    def record(self, entries: Sequence[Entry]) -> list[Command]:
        """Appends entries to the journal, and applies them to the ledger."""
        self._journal.append_entries((encode_entries(entries),))
        commands: list[Command] = []
        for entry in entries:
            if isinstance(entry, BundleReply):
                self.moved = time.monotonic()
                attempt = entry.attempt
                if self.ledger.is_open(attempt):
                    self._metrics.record_commit(attempt, entry.metrics)
                if self.sections.record_commit(attempt):
                    self._orphan_files.schedule_section_files(attempt)
            if isinstance(entry, BundleFailed | SectionRefused):
                attempt = Attempt(entry.bundle, entry.attempt)
                self._orphan_files.schedule_attempt_files(attempt)
                self._metrics.record_failure(attempt)
            commands += self.ledger.apply_entry(entry)
        if overtaken := find_overtaken_data(self.ledger):
            commands += self.record((Abort(overtaken, EndingKind.SERVER),))
        self._settings.files.delete_files(self.ledger.take_garbage())
        self._since_snapshot += len(entries)
        if self._since_snapshot >= _ENTRIES_PER_SNAPSHOT:
            self._since_snapshot = 0
            self._journal.write_snapshot(self.ledger.encode_snapshot())
        return commands

    def open(self, bundles: Sequence[Bundle]) -> None:
        """Starts bundles: in the loop inside a task if all work is small, otherwise in lanes or sections."""
        if not bundles or self._suspended:
            return
        now = time.monotonic()
        if (
            are_small_bundles(bundles, self._settings.loop_bytes)
            # A loop can't provide stable input: it runs successive bundles before it commits.
            and not self.ledger.plan.needs_stable_input
            and not self.ledger.plan.has_tables
            and self.lanes.is_quiet
            and not self.sections.has_sections
            and self._loop.can_start_loop(now)
        ):
            self._loop.begin_lease(now)
            self.lanes.queue_loop()
        else:
            self.start_bundles(bundles)

    def split(self, bundle: int, attempt: int, fraction: float) -> None:
        """Requests a split of a running bundle. Records an empty split if the bundle doesn't run."""
        if (link := self.lanes.find_process(Attempt(bundle, attempt))) is not None:
            link.send(SplitRequest(Attempt(bundle, attempt), fraction))
        else:
            self._waiting.append(SplitDone(bundle, attempt))

    def stop(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Removes waiting bundles. Running bundles end with the job."""
        self.lanes.remove_waiting_attempts([Attempt(*bundle) for bundle in bundles])

    def finalize(self, bundles: Sequence[int]) -> None:
        """Runs the finalization callbacks of committed bundles in the bundles' processes."""
        self._finalizers.run_callbacks(bundles)

    def start_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Starts bundles: on lanes, or as Spark jobs if they are sections."""
        mine = self.sections.is_section
        self.lanes.queue_bundles([bundle for bundle in bundles if not mine(bundle)])
        self.sections.start_sections([bundle for bundle in bundles if mine(bundle)])

    def _commit_loop_progress(self, link: WorkerLink, progress: LoopProgress) -> None:
        """Commits the latest entries of the running loop."""
        if self._loop.is_held_by(progress.loop):
            self._driver.execute_commands(self._record_loop_entries(link, progress.entries))

    def _record_loop_entries(self, link: WorkerLink, entries: Sequence[Entry]) -> list[Command]:
        """Commits entries of a loop. Drops commands to open bundles, because the loop runs them."""
        self._finalizers.record_processes(link, entries)
        commands = self.record(self.lanes.add_lane_to_entries(link, entries))
        return [c for c in commands if not isinstance(c, OpenBundles)]

    def _handle_failed_loop(self, link: WorkerLink, broken: LoopFailure) -> None:
        """Handles a failed loop in a live process. Its uncommitted results are lost."""
        if self._loop.is_held_by(broken.loop):
            self.lanes.handle_loop_end(link, None)
            self.take_loop_back(broken.reason)

    def _handle_ended_loop(self, link: WorkerLink, reply: LoopReply) -> None:
        """Handles the end of a loop: the server owns the scheduler again, and commits the results."""
        if not self._loop.is_held_by(reply.loop):
            return
        _LOGGER.debug("job %s: loop %s ended", self._job_id, reply.loop)
        if reply.outgrown:
            self._loop.end_outgrown_loop(time.monotonic())
        else:
            self._loop.end_lease()
        commands = self._record_loop_entries(link, reply.entries)
        running = reply.running
        bundle = None if running is None else self.ledger.get_open_bundle(running)
        self.lanes.handle_loop_end(link, bundle)
        self._driver.execute_commands(commands)
        # Start all other open bundles, which the loop had queued but not started.
        self.open([b for b in self.ledger.open_bundles if Attempt(b.number, b.attempt) != running])
