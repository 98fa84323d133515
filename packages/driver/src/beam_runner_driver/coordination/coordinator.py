"""Coordinator of one job in the server: executes the engine's commands on lanes and in sections.

Lanes are worker processes that run bundles one by one. Sections are Spark jobs of several stages.
The loop inside a task is a worker process that runs the scheduler; new events wait for its end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.dispatch.lease import SchedulerLease
from beam_runner_engine.dispatch.loop_limits import are_all_bundles_small
from beam_runner_engine.scheduler.commands import Bundle, Command, OpenBundles
from beam_runner_engine.scheduler.events import (
    Abort,
    AttemptsLost,
    Cancel,
    Drain,
    Hold,
    Progress,
    SplitDone,
    YieldRequested,
)
from beam_runner_model.failures import JobFailureKind
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
from beam_runner_runtime.sections.ends import SectionEnd
from beam_runner_runtime.sections.ports import SectionHost
from beam_runner_runtime.sections.running import SectionRunner
from beam_runner_runtime.tuning import TUNING

from beam_runner_driver.coordination.ended_attempts import AttemptEndRecorder
from beam_runner_driver.coordination.finalizers import FinalizationCallbacks
from beam_runner_driver.coordination.lane_failures import LaneFailures
from beam_runner_driver.coordination.metrics import JobMetricsSum
from beam_runner_driver.coordination.orders import WorkerOrderFactory
from beam_runner_driver.coordination.watermark_checks import find_data_passed_by_watermark
from beam_runner_driver.coordination.worker_outages import WorkerOutages
from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.lost_work import LostWork
from beam_runner_driver.lanes.slots import JobSlots
from beam_runner_driver.ledger.journal_codec import JournalEntry, encode_entries
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.orphan_files import OrphanFiles
from beam_runner_driver.ledger.retrying_journal import RetryingJournal
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_driver.quarantine.quarantine_limits import refuse_excess_units

_LOGGER = logging.getLogger(__name__)


class JobCoordinator:
    """Coordinator of one job. Only the job's thread can call its methods.

    Args:
        ledger: committed state of the job. The bundles that are open in this state run first.
        metrics: sum of committed and attempted metrics.
        start_lane: function that starts a lane (a worker process that runs bundles in turn).
        host: runner of sections (stages that run together as one Spark job).
        on_section_end: callback, on any thread, that leads to a call of `handle_section_end`.

    Attributes:
        moved: time (``time.monotonic``) of the latest commit or progress.
        broken_loops: number of failed loops inside tasks.
        outages: outages that worker processes wait for.
        lane_failures: counter of failed starts of lanes.
    """

    def __init__(
        self,
        ledger: JobLedger,
        journal: RetryingJournal,
        metrics: JobMetricsSum,
        start_lane: Callable[[int], None],
        host: SectionHost,
        on_section_end: Callable[[SectionEnd], None],
        slots: JobSlots,
        settings: JobSettings,
    ) -> None:
        self.ledger, self.moved = ledger, time.monotonic()
        self.clock = ProcessingClock(ledger.processing_time)
        self.broken_loops, self.outages = 0, WorkerOutages()
        self._job_id, self._journal, self._metrics = ledger.plan.context.job_id, journal, metrics
        self._settings, self._slots = settings, slots
        self._takes_turns, self._suspended = ledger.plan.shares_one_interpreter, False
        sources = ledger.plan.list_source_stage_ids()
        orders = WorkerOrderFactory(ledger, self.clock, settings)
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
        self._orphan_files = OrphanFiles(settings)
        self._attempts = AttemptEndRecorder(ledger, metrics, self.sections, self._orphan_files)
        self._waiting: list[Entry] = []
        self._acts: list[Callable[[], None]] = []
        self._finalizers = FinalizationCallbacks(runs_callbacks=not settings.is_shadow)
        self.lane_failures = LaneFailures(ledger.limits.outage_limit is None)
        self._driver: JobDriver[JournalEntry] = JobDriver(self)
        pauses = (TUNING.loop_outgrown_pause_seconds, TUNING.loop_broken_pause_seconds)
        self._loop = SchedulerLease(*pauses)

    def resume_job(self) -> None:
        """Resumes the job from its committed state. Releases stages whose sources an earlier server paused."""
        if self.ledger.held_stages:
            self.record_journal_entries((Hold(),))
        self.open_bundles(self.ledger.open_bundles)

    @property
    def seconds_to_alarm(self) -> float | None:
        """Seconds until `run_round` must run even without an event; None without such a time."""
        if self._loop.is_out:
            return None
        wait = self._driver.compute_wake_delay(self.clock.now())
        alarms = (None if wait is None else wait / 1000, self.lanes.seconds_to_next_yield)
        return min((alarm for alarm in alarms if alarm is not None), default=None)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        """Handles a message from a worker process about its lane, bundle or scheduler loop."""
        match message:
            case LaneOpened(lane):
                self.lane_failures.reset_count()
                work = self.lanes.handle_opened_lane(lane, link)
                self.handle_loss(work, work.process.text, work.process)
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
            case LoopProgress() if self._loop.is_held_by(message.loop):
                self._driver.execute_commands(self._record_loop_entries(link, message.entries))
            case LoopReply():
                self._handle_ended_loop(link, message)
            case LoopFailure() if self._loop.is_held_by(message.loop):
                self.lanes.handle_loop_end(link, None)
                self.reclaim_scheduler(message.reason)
            case NeighbourWaitStatus():
                self.outages.handle_wait_message(link, message, time.monotonic())

    def handle_process_exit(self, link: WorkerLink) -> None:
        """Handles the exit of a worker process: schedules its files for deletion, and retries its work."""
        self._orphan_files.schedule_process_folder(link.hello)
        self.outages.remove_process(link)
        loss = self.lanes.handle_process_exit(link)
        self.handle_loss(loss, loss.process.text, loss.process)

    def handle_lane_end(self, number: int, error: str) -> None:
        """Handles the end of a lane. `error` is empty after a normal end."""
        self.handle_loss(self.lanes.handle_lane_end(number), f"its lane failed: {error}")
        if not error:
            return
        _LOGGER.warning("job %s: lane failed: %s", self._job_id, error)
        pause = self.lane_failures.count_failure(error, time.monotonic())
        if pause is None:
            reason = f"failed to start worker processes; the last error: {error}"
            self._end_job(Abort(reason, JobFailureKind.PROCESSES))
        else:
            self.lanes.pause_lane_starts(pause)

    def handle_section_end(self, end: SectionEnd) -> None:
        """Queues the result of a section attempt for the next commit."""
        self._waiting.append(self.sections.handle_end(end))

    def cancel_job(self) -> None:
        """Cancels the job."""
        self._end_job(Cancel())

    def drain_job(self) -> None:
        """Drains the job: stops its sources, and processes the elements that they have emitted."""
        self._request_loop_end()
        self._waiting.append(Drain())

    def pause_stages(self, stages: tuple[str, ...]) -> None:
        """Pauses exactly these stages, so that all open bundles can finish, and resumes all other stages."""
        self._request_loop_end()
        self._waiting.append(Hold(stages))

    def run_with_scheduler(self, act: Callable[[], None]) -> None:
        """Runs `act` on this thread as soon as the scheduler is in the server, and not lent to a
        worker process.
        """
        self._request_loop_end()
        self._acts.append(act)

    def commit_entry(self, entry: JournalEntry) -> None:
        """Commits an entry immediately. Only functions that `run_with_scheduler` runs can call this method."""
        self._driver.record_journal_entries((entry,), self.clock.now())

    @property
    def is_idle(self) -> bool:
        """Whether the job has committed everything, and has no open bundle."""
        return self.is_settled and self.ledger.is_idle

    def _request_loop_end(self) -> None:
        if self._loop.is_out and not self.lanes.request_loop_end():
            # An event waits until the loop has run and ended, so queue the loop if no lane runs it.
            self.lanes.queue_loop()

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
        """Whether the suspension is complete: no lane runs a bundle or the loop inside a task."""
        return self._suspended and not self._loop.is_out and not any(self.lanes.list_busy_lanes())

    def run_round(self) -> None:
        """Commits the events since the last call, and starts all bundles that can run."""
        if not self._loop.is_out:
            for attempt in self.lanes.take_yielding_bundles():
                self._waiting.append(YieldRequested(attempt.bundle, attempt.attempt))
            entries, self._waiting = self._waiting, []
            self._driver.record_journal_entries(entries, self.clock.now())
        while self._acts and not self._loop.is_out:
            self._acts.pop(0)()
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
        """Schedules the retry of uncommitted work that was lost with a lane. `process` is the lost process."""
        if loss.loop and self._loop.is_out:
            self.reclaim_scheduler(reason)
        if (bundle := loss.bundle) is not None:
            _LOGGER.warning("job %s: bundle %s: %s", self._job_id, bundle.number, reason)
            self._waiting.append(describe_loss(bundle, reason, process))

    @property
    def is_loop_lost(self) -> bool:
        """Whether the scheduler is lost: the loop inside a task owns it, but no lane runs the loop."""
        return self._loop.is_out and not self.lanes.has_loop

    @property
    def is_settled(self) -> bool:
        """Whether the server has the scheduler and no event waits. A lane or section has each open bundle then."""
        return not (self._loop.is_out or self._waiting or self._suspended)

    def reclaim_scheduler(self, reason: str) -> None:
        """Moves the scheduler back to the server, after the loop in a worker process failed. The
        loop's bundles run again.
        """
        self.broken_loops += 1
        self._loop.end_lease_of_lost_loop(time.monotonic())
        self._orphan_files.schedule_loop_files(self._loop.number)
        _LOGGER.warning("job %s: loop failed, and its bundles run again: %s", self._job_id, reason)
        self._waiting.append(AttemptsLost())

    # Methods of the engine's protocol `Host`. The engine's driver calls them to execute commands.

    @property
    def next_wake(self) -> int | None:
        """Processing time (ms) of the next required scheduler tick."""
        return self.ledger.next_wake

    def record_journal_entries(self, entries: Sequence[JournalEntry]) -> list[Command]:
        """Appends entries to the journal, and applies them to the job's committed state."""
        entries = refuse_excess_units(self._settings.quarantine, self.ledger, entries)
        self._journal.append_entries((encode_entries(entries),))
        commands: list[Command] = []
        for entry in entries:
            if isinstance(entry, BundleReply):
                self.moved = time.monotonic()
            self._attempts.record_end(entry)
            commands += self.ledger.apply_journal_entry(entry)
        if overtaken := find_data_passed_by_watermark(self.ledger):
            commands += self.record_journal_entries((Abort(overtaken, JobFailureKind.SERVER),))
        self._settings.files.delete_files(self.ledger.take_unneeded_files())
        self._journal.write_due_snapshot(len(entries), self.ledger.encode_snapshot)
        return commands

    def open_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Starts bundles. If all work is small, one worker process runs them with the scheduler (a
        loop inside a task). Otherwise, lanes or sections run them.
        """
        if not bundles or self._suspended:
            return
        now = time.monotonic()
        if (
            are_all_bundles_small(bundles, self._settings.loop_bytes)
            # A loop can't provide stable input, because it runs successive bundles before a commit.
            and not self.ledger.plan.needs_stable_input
            and not self.ledger.plan.has_tables
            and self.lanes.is_idle
            and not self.sections.has_sections
            and self._loop.can_start_loop(now)
            and not (self._waiting or self._acts or self.ledger.held_stages)
        ):
            self._loop.begin_lease(now)
            self.lanes.queue_loop()
        else:
            self.start_bundles(bundles)

    def split_bundle(self, bundle: int, attempt: int, fraction: float) -> None:
        """Requests a split of a running bundle. Records an empty split if the bundle doesn't run."""
        if (link := self.lanes.find_process(Attempt(bundle, attempt))) is not None:
            link.send(SplitRequest(Attempt(bundle, attempt), fraction))
        else:
            self._waiting.append(SplitDone(bundle, attempt))

    def cancel_bundles(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Removes waiting bundles. Running bundles end with the job."""
        self.lanes.remove_queued_attempts([Attempt(*bundle) for bundle in bundles])

    def finalize_bundles(self, bundles: Sequence[int]) -> None:
        """Runs the finalization callbacks of committed bundles in the bundles' processes."""
        self._finalizers.run_callbacks(bundles)

    def start_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Starts bundles: on lanes, or as Spark jobs if they are sections."""
        mine = self.sections.is_section
        self.lanes.queue_bundles([bundle for bundle in bundles if not mine(bundle)])
        self.sections.start_sections([bundle for bundle in bundles if mine(bundle)])

    def _record_loop_entries(self, link: WorkerLink, entries: Sequence[Entry]) -> list[Command]:
        """Commits the entries that a loop reports. Ignores new bundles, because the loop runs them."""
        self._finalizers.record_processes(link, entries)
        commands = self.record_journal_entries(self.lanes.add_lane_to_entries(link, entries))
        return [c for c in commands if not isinstance(c, OpenBundles)]

    def _handle_ended_loop(self, link: WorkerLink, reply: LoopReply) -> None:
        """Handles the end of a loop inside a task: the server takes the scheduler back, and commits the results."""
        if not self._loop.is_held_by(reply.loop):
            return
        if reply.outgrown:
            self._loop.end_lease_for_more_slots(time.monotonic())
        else:
            self._loop.end_lease()
        commands = self._record_loop_entries(link, reply.entries)
        running = reply.running
        bundle = None if running is None else self.ledger.get_open_bundle(running)
        self.lanes.handle_loop_end(link, bundle)
        self._driver.execute_commands(commands)
        # Start all bundles that the loop had queued but not started.
        queued = (b for b in self.ledger.open_bundles if Attempt.from_bundle(b) != running)
        self.open_bundles(list(queued))
