"""Ledger of a job: the complete committed state. It's a pure function of the entries in the job's
journal.

The same entries always produce the same ledger and the same commands. Therefore, another server can
replace a lost server by replaying the journal.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

import attrs
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    FailJob,
    FinishJob,
    OpenBundles,
    ReleaseData,
    ReleaseState,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Event,
    FailureKind,
    SectionRefused,
)
from beam_runner_engine.scheduler.overtaking import WatermarkChecker
from beam_runner_engine.scheduler.policy import SectionPolicy, SplittingPolicy
from beam_runner_engine.scheduler.reports import RetryReport, StageReport
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_engine.scheduler.state import FORMAT, SchedulerState
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import Attempt, FailedStep
from beam_runner_runtime.channel.messages import BundleReply
from beam_runner_runtime.sections.plan import list_stage_ids
from beam_runner_worker.totals import Totals

from beam_runner_driver.ledger.journal_codec import JournalEntry, LedgerState, Tally, encode_ledger
from beam_runner_driver.ledger.quarantine import QuarantineState, ReplayedUnits
from beam_runner_driver.ledger.scheduling import make_scheduler_graph


class JobLedger:
    """Committed state of a job (its ledger): the scheduler, and the files, state and metrics of all
    commits.

    Args:
        plan: plan of the job.
        shards: number of key shards (hash partitions of the keys) of each stage; fixed for the
            lifetime of the job.
        limits: limits of the scheduler.
        policy: policy that splits work into bundles.
        section_policy: policy that selects the stages that run as one Spark job (a section); None
            disables sections.

    Attributes:
        metrics: sum of all committed metrics.
        tallies: counts of bundles, by stage.
        end: end of the job; None while the job runs.
        last_failure: last failed attempt at a bundle.
        quarantine: input units (elements, groups, timers) that went to quarantine, because they
            always fail.
        watch: debugging check of watermarks for each event; None if disabled.
    """

    watch: WatermarkChecker | None = None

    def __init__(
        self,
        plan: JobPlan,
        shards: int,
        limits: Limits,
        policy: SplittingPolicy,
        section_policy: SectionPolicy | None = None,
    ) -> None:
        self.plan = plan
        self.shards = shards
        self.metrics = Totals()
        self.tallies: dict[str, Tally] = {}
        self._scheduler = Scheduler(
            make_scheduler_graph(plan, sections=section_policy is not None),
            limits,
            policy,
            section_policy,
        )
        self._open: dict[int, Bundle] = {}
        self.end: FinishJob | FailJob | None = None
        self.last_failure: BundleFailed | None = None
        self._uses: dict[str, int] = {}
        self._segments: dict[tuple[str, int], tuple[Segment, ...]] = {}
        self._garbage: list[str] = []
        self.quarantine = QuarantineState()

    def apply_journal_entry(self, entry: JournalEntry) -> tuple[Command, ...]:
        """Applies a journal entry to the state, and returns the commands of the scheduler.

        If an entry commits an attempt that isn't open, nothing changes.

        Raises:
            IllegalEvent: If the scheduler rejects the event; the ledger is then unchanged.
        """
        if isinstance(entry, BundleReply):
            return self._apply_commit(entry)
        if isinstance(entry, ReplayedUnits):
            self.quarantine.mark_replayed(entry.rows)
            return tuple(c for event in entry.deliveries for c in self._apply_event(event))
        return self._apply_event(entry)

    @property
    def open_bundles(self) -> tuple[Bundle, ...]:
        """Bundles that must run because their results aren't committed, each with the number of its latest attempt."""
        return self._scheduler.open_bundles

    @property
    def processing_time(self) -> int:
        """Latest processing time (ms) that the scheduler received."""
        return self._scheduler.now

    @property
    def next_wake(self) -> int | None:
        """Processing time (ms) of the next required tick; None if no tick is required."""
        return self._scheduler.next_wake

    @property
    def limits(self) -> Limits:
        """Limits of the scheduler. After a change, the caller must write a snapshot. Changes are
        possible only between two entries.
        """
        return self._scheduler.state.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        state = attrs.evolve(self._scheduler.state, limits=limits)
        self._scheduler = Scheduler.from_state(state)

    @property
    def next_bundle(self) -> int:
        """Number of the next bundle."""
        return self._scheduler.state.next_bundle

    @property
    def scheduler_state(self) -> SchedulerState:
        """Current state of the scheduler, which the caller must not change."""
        return self._scheduler.state

    @property
    def held_stages(self) -> tuple[str, ...]:
        """Stages that an update has paused, so that they open no bundles."""
        return self._scheduler.held_stages

    @property
    def is_idle(self) -> bool:
        """Whether the running job has no open bundle."""
        return self._scheduler.is_idle

    def create_stage_report(self, stage: str) -> StageReport:
        """Returns a status report for a stage."""
        return self._scheduler.create_stage_report(stage)

    def report_stages(self) -> Iterator[StageReport]:
        """Yields a status report for each stage."""
        return map(self.create_stage_report, self.plan.stages)

    def list_wait_reasons(self) -> tuple[Wait, ...]:
        """Returns the reasons for which incomplete stages wait."""
        return self._scheduler.list_wait_reasons()

    def list_retried_bundles(self) -> tuple[RetryReport, ...]:
        """Returns the open bundles with a failed attempt, oldest first."""
        return self._scheduler.list_retried_bundles()

    def get_failed_step(self, bundle: Bundle) -> FailedStep | None:
        """Returns the step of the latest failure of an open bundle in user code; None if unknown."""
        detail = self._scheduler.get_failure_detail(bundle.number)
        return detail if isinstance(detail, FailedStep) else None

    def list_oldest_opening_times(self) -> dict[str, int]:
        """Returns the processing time (ms) at which the oldest open or paused bundle of each stage was opened."""
        oldest: dict[str, int] = {}
        for bundle in (*self._open.values(), *self._scheduler.paused_bundles):
            for stage in list_stage_ids(bundle):
                oldest[stage] = min(
                    bundle.processing_time, oldest.get(stage, bundle.processing_time)
                )
        return oldest

    def pickle_scheduler(self) -> bytes:
        """Returns the pickled scheduler, for a worker process that runs it (the loop inside a
        task).
        """
        return pickle.dumps(self._scheduler)

    def list_all_state_segments(self) -> dict[tuple[str, int], tuple[Segment, ...]]:
        """Returns the files of all stored keyed state (state segments), by stage and key shard."""
        return dict(self._segments)

    def get_open_bundle(self, attempt: Attempt) -> Bundle:
        """Returns an open bundle. Raises KeyError if the bundle isn't open."""
        return self._open[attempt.bundle]

    def list_state_segments(self, bundle: Bundle) -> tuple[Segment, ...]:
        """Returns the state segments that a bundle reads."""
        if bundle.shard is None:
            return ()
        return self._segments.get((bundle.stage, bundle.shard), ())

    def is_open(self, attempt: Attempt) -> bool:
        """Returns whether this attempt at a bundle has started, and its result isn't committed yet."""
        known = self._open.get(attempt.bundle)
        return self.end is None and known is not None and known.attempt == attempt.attempt

    def take_unneeded_files(self) -> list[str]:
        """Returns files (relative to the job's folder) that are no longer needed. Returns each file once."""
        garbage, self._garbage = self._garbage, []
        return garbage

    def list_needed_files(self) -> Iterator[str]:
        """Yields all files (relative to the job's folder) that are still needed, each once."""
        yield from self._uses
        yield from dict.fromkeys(
            segment.path for segments in self._segments.values() for segment in segments
        )

    def encode_snapshot(self) -> bytes:
        """Encodes the complete ledger as a snapshot, which `DecodedJournal` decodes."""
        return encode_ledger(self.to_state())

    def to_state(self) -> LedgerState:
        """Returns the complete state. The state refers to the ledger's own objects, and doesn't
        copy them.
        """
        return LedgerState(
            plan=self.plan,
            shards=self.shards,
            metrics=self.metrics.infos(),
            scheduler=self._scheduler.state,
            engine_format=FORMAT,
            open=self._open,
            uses=self._uses,
            segments=self._segments,
            garbage=self._garbage,
            end=self.end,
            last_failure=self.last_failure,
            tallies=self.tallies,
            quarantine=self.quarantine,
        )

    @classmethod
    def from_state(cls, state: LedgerState) -> JobLedger:
        """Returns a ledger that continues from a saved state."""
        ledger = cls.__new__(cls)
        ledger.plan, ledger.shards = state.plan, state.shards
        ledger.metrics = Totals()
        ledger.metrics.add(state.metrics)
        ledger._scheduler = Scheduler.from_state(state.scheduler)
        ledger._open = state.open
        ledger._uses, ledger._segments = state.uses, state.segments
        ledger._garbage = state.garbage
        ledger.end, ledger.last_failure = state.end, state.last_failure
        ledger.tallies, ledger.quarantine = state.tallies, state.quarantine
        return ledger

    def _apply_commit(self, entry: BundleReply) -> tuple[Command, ...]:
        done = entry.done
        if not self.is_open(entry.attempt):
            return ()
        bundle = self._open.pop(done.bundle)
        if entry.state is not None and bundle.shard is not None:
            # Replace the key shard's state before the scheduler handles the event: the last commit
            # of a stage deletes the stage's state, and must include this replacement.
            self._replace_state((bundle.stage, bundle.shard), entry.state.segments)
        self.metrics.add(entry.metrics)
        if entry.quarantined:
            self.quarantine.record_units(
                self.plan.context.job_id,
                entry.attempt,
                entry.quarantined,
                self.processing_time,
                self.plan.stages[bundle.stage].identity,
            )
        self._increment_stage_count(bundle, "committed")
        return self._apply_event(done)

    def _apply_event(self, event: Event) -> tuple[Command, ...]:
        match event:
            case BundleFailed(number, attempt) if self.is_open(Attempt(number, attempt)):
                self.last_failure = event
                # Remove only the failed attempt. The scheduler opens the next attempt by a separate
                # command, possibly after a pause.
                bundle = self._open.pop(number)
                away = event.kind is FailureKind.UNAVAILABLE
                self._increment_stage_count(bundle, "interrupted" if away else "failed")
            case SectionRefused(number, attempt) if self.is_open(Attempt(number, attempt)):
                section = self._open.pop(number)
                if event.ran:
                    # Count the refused section as a failed attempt: its result is discarded, and
                    # its stages run again as separate bundles.
                    cause = f"a section is run as bundles instead: {event.reason}"
                    self.last_failure = BundleFailed(number, attempt, cause, FailureKind.OUTSIDE)
                    self._increment_stage_count(section, "failed")
        watch, scheduler = self.watch, self._scheduler
        commands = (
            scheduler.handle_event(event) if watch is None else watch.handle_event(scheduler, event)
        )
        if isinstance(event, BundleDone):
            for output in event.outputs:
                self._add_file_use(output.data)
            for residual in event.residuals:
                self._add_residual_use(residual.data)
        self.apply_commands(commands)
        return commands

    def apply_commands(self, commands: Iterable[Command]) -> None:
        """Applies commands of the scheduler to bundles, files and segments."""
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    self._open.update((b.number, b) for b in bundles)
                    for bundle in bundles:
                        if bundle.attempt > 1:
                            self._increment_stage_count(bundle, "retried")
                case CancelBundles(bundles):
                    for number, _ in bundles:
                        self._open.pop(number, None)
                case ReleaseData(data):
                    for piece in data:
                        self._remove_file_use(piece)
                case ReleaseState(stage):
                    for place in [p for p in self._segments if p[0] == stage]:
                        self._replace_state(place, ())
                case FinishJob() | FailJob():
                    self.end = command

    def _increment_stage_count(self, bundle: Bundle, what: str) -> None:
        """Increments the count ``what`` in the `Tally` of each stage of a bundle."""
        for stage in list_stage_ids(bundle):
            tally = self.tallies.get(stage, Tally())
            self.tallies[stage] = attrs.evolve(tally, **{what: getattr(tally, what) + 1})

    def _add_file_use(self, data: Data) -> None:
        if isinstance(data.ref, FileRows):
            self._uses[data.ref.path] = self._uses.get(data.ref.path, 0) + 1

    def _add_residual_use(self, data: Data) -> None:
        """Adds a use of the file that a residual (unprocessed input) refers to, unless the bundle
        has read the same file and its use remains.
        """
        if isinstance(data.ref, FileRows) and data.ref.path not in self._uses:
            self._add_file_use(data)

    def _remove_file_use(self, data: Data) -> None:
        """Decrements the number of uses of a file. Data that refers to only a part of a file doesn't count as a use."""
        ref = data.ref
        if not isinstance(ref, FileRows) or ref.first or ref.last is not None or ref.share:
            return
        self._uses[ref.path] -= 1
        if not self._uses[ref.path]:
            del self._uses[ref.path]
            self._garbage.append(ref.path)

    def _replace_state(self, place: tuple[str, int], segments: tuple[Segment, ...]) -> None:
        before = self._segments.pop(place, ())
        if segments:
            self._segments[place] = segments
        kept = {segment.path for segment in segments}
        gone = [segment for segment in before if segment.path not in kept]
        if any(segment.share is not None for segment in gone):
            # If an update has split this key shard, the other parts of the shard can still read the
            # files.
            kept.update(one.path for others in self._segments.values() for one in others)
        self._garbage += [segment.path for segment in gone if segment.path not in kept]
