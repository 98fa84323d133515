"""The ledger of a job: all that is committed, as a pure function of the job's journal.

The same entries always make the same ledger, and give the same commands on the way. So a server
that was lost is replaced by one that reads the journal again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

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
from beam_runner_engine.scheduler.reports import Retry, StageReport
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_engine.scheduler.state import FORMAT
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_worker.totals import Totals

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleReply, Entry
from beam_runner_runtime.driver.kept import LedgerState, Tally, encode_ledger
from beam_runner_runtime.driver.scheduling import graph_of
from beam_runner_runtime.sections.plan import stages_of


class Ledger:
    """The scheduler of a job, and what its commits have left: files, state and metrics.

    Args:
        plan: the job's.
        shards: how many key shards its stages have; fixed for the job's life.
        limits: how far the scheduler goes.
        policy: how work is split.
        section_policy: whether sections are run as one; None if none are.

    Attributes:
        metrics: of everything committed.
        tallies: by stage, how many bundles came to what.
        end: how the job ended, once it has.
        last_failure: the last attempt at a bundle that failed.
        watch: looks at what is worked in, to debug the runner; None if nobody does.
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
            graph_of(plan, sections=section_policy is not None), limits, policy, section_policy
        )
        self._open: dict[int, Bundle] = {}
        self.end: FinishJob | FailJob | None = None
        self.last_failure: BundleFailed | None = None
        self._uses: dict[str, int] = {}
        self._segments: dict[tuple[str, int], tuple[Segment, ...]] = {}
        self._garbage: list[str] = []

    def apply(self, entry: Entry) -> tuple[Command, ...]:
        """Works in an entry, and returns what is to be done now.

        A commit of a bundle that is not open at that attempt changes nothing.

        Raises:
            IllegalEvent: the scheduler does not allow the event; nothing has changed.
        """
        if isinstance(entry, BundleReply):
            return self._commit(entry)
        return self._handle(entry)

    @property
    def open_bundles(self) -> tuple[Bundle, ...]:
        """The bundles that are to be run, each at its latest attempt."""
        return self._scheduler.open_bundles

    @property
    def now(self) -> int:
        """The processing time (ms) that it was told last."""
        return self._scheduler.now

    @property
    def next_wake(self) -> int | None:
        """The processing time (ms) of the next tick that is needed."""
        return self._scheduler.next_wake

    @property
    def limits(self) -> Limits:
        """How far the scheduler goes; may be set between entries, and a snapshot must follow then."""
        return self._scheduler.state.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        state = attrs.evolve(self._scheduler.state, limits=limits)
        self._scheduler = Scheduler.from_state(state)

    @property
    def next_bundle(self) -> int:
        """The number of the next bundle."""
        return self._scheduler.state.next_bundle

    def reports(self) -> Iterator[StageReport]:
        """What every stage is at."""
        return map(self._scheduler.report, self.plan.stages)

    def waits(self) -> tuple[Wait, ...]:
        """What every stage waits for that is not complete."""
        return self._scheduler.waits()

    def retries(self) -> tuple[Retry, ...]:
        """The open bundles of which an attempt failed, oldest first."""
        return self._scheduler.retries()

    def opened(self) -> dict[str, int]:
        """By stage, when (ms, in processing time) the oldest of its open bundles was opened, paused ones included."""
        oldest: dict[str, int] = {}
        for bundle in (*self._open.values(), *self._scheduler.paused_bundles):
            for stage in stages_of(bundle):
                oldest[stage] = min(
                    bundle.processing_time, oldest.get(stage, bundle.processing_time)
                )
        return oldest

    def scheduler_snapshot(self) -> bytes:
        """The scheduler alone, pickled for the loop inside a task."""
        return pickle.dumps(self._scheduler)

    def all_segments(self) -> dict[tuple[str, int], tuple[Segment, ...]]:
        """The state of every key shard that has any, by stage and shard."""
        return dict(self._segments)

    def bundle(self, attempt: Attempt) -> Bundle:
        """An open bundle; KeyError if it is not open."""
        return self._open[attempt.bundle]

    def segments(self, bundle: Bundle) -> tuple[Segment, ...]:
        """The state that a bundle finds."""
        if bundle.shard is None:
            return ()
        return self._segments.get((bundle.stage, bundle.shard), ())

    def is_open(self, attempt: Attempt) -> bool:
        """Whether this attempt at a bundle is awaited."""
        known = self._open.get(attempt.bundle)
        return self.end is None and known is not None and known.attempt == attempt.attempt

    def take_garbage(self) -> list[str]:
        """Files (relative to the job's folder) that nothing will read again; tells each once."""
        garbage, self._garbage = self._garbage, []
        return garbage

    def files(self) -> Iterator[str]:
        """All files (relative to the job's folder) that are still needed."""
        yield from self._uses
        for segments in self._segments.values():
            for segment in segments:
                yield segment.path

    def snapshot(self) -> bytes:
        """The whole ledger, for `Kept`."""
        state = LedgerState(
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
        )
        return encode_ledger(state)

    @classmethod
    def of_state(cls, state: LedgerState) -> Ledger:
        """The ledger that this was all of."""
        ledger = cls.__new__(cls)
        ledger.plan, ledger.shards = state.plan, state.shards
        ledger.metrics = Totals()
        ledger.metrics.add(state.metrics)
        ledger._scheduler = Scheduler.from_state(state.scheduler)
        ledger._open = state.open
        ledger._uses, ledger._segments = state.uses, state.segments
        ledger._garbage = state.garbage
        ledger.end, ledger.last_failure = state.end, state.last_failure
        ledger.tallies = state.tallies
        return ledger

    def _commit(self, entry: BundleReply) -> tuple[Command, ...]:
        done = entry.done
        if not self.is_open(entry.attempt):
            return ()
        bundle = self._open.pop(done.bundle)
        if entry.state is not None and bundle.shard is not None:
            # Before the event: the last commit of a stage releases the stage's state.
            self._replace_state((bundle.stage, bundle.shard), entry.state.segments)
        self.metrics.add(entry.metrics)
        self._count(bundle, "committed")
        return self._handle(done)

    def _handle(self, event: Event) -> tuple[Command, ...]:
        match event:
            case BundleFailed(number, attempt) if self.is_open(Attempt(number, attempt)):
                self.last_failure = event
                # The next attempt is open once a command says so: a pause may come first.
                bundle = self._open.pop(number)
                away = event.kind is FailureKind.UNAVAILABLE
                self._count(bundle, "interrupted" if away else "failed")
            case SectionRefused(number, attempt) if self.is_open(Attempt(number, attempt)):
                section = self._open.pop(number)
                if event.ran:
                    # Its user code runs again in bundles, so this attempt came to nothing.
                    cause = f"a section is run as bundles instead: {event.reason}"
                    self.last_failure = BundleFailed(number, attempt, cause, FailureKind.OUTSIDE)
                    self._count(section, "failed")
        watch, scheduler = self.watch, self._scheduler
        commands = scheduler.handle(event) if watch is None else watch.handle(scheduler, event)
        if isinstance(event, BundleDone):
            for output in event.outputs:
                self._keep(output.data)
            for residual in event.residuals:
                self._keep_new(residual.data)
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    self._open.update((b.number, b) for b in bundles)
                    for bundle in bundles:
                        if bundle.attempt > 1:
                            self._count(bundle, "retried")
                case CancelBundles(bundles):
                    for number, _ in bundles:
                        self._open.pop(number, None)
                case ReleaseData(data):
                    for piece in data:
                        self._release(piece)
                case ReleaseState(stage):
                    for place in [p for p in self._segments if p[0] == stage]:
                        self._replace_state(place, ())
                case FinishJob() | FailJob():
                    self.end = command
        return commands

    def _count(self, bundle: Bundle, what: str) -> None:
        """Counts a bundle in one of the counts of `Tally`."""
        for stage in stages_of(bundle):
            tally = self.tallies.get(stage, Tally())
            self.tallies[stage] = attrs.evolve(tally, **{what: getattr(tally, what) + 1})

    def _keep(self, data: Data) -> None:
        if isinstance(data.ref, FileRows):
            self._uses[data.ref.path] = self._uses.get(data.ref.path, 0) + 1

    def _keep_new(self, data: Data) -> None:
        """Counts the file of a residual, unless it is what the bundle had read."""
        if isinstance(data.ref, FileRows) and data.ref.path not in self._uses:
            self._keep(data)

    def _release(self, data: Data) -> None:
        """Counts down the file's uses; what a split has cut from a piece was never counted."""
        ref = data.ref
        if not isinstance(ref, FileRows) or ref.first or ref.last is not None:
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
        self._garbage += [s.path for s in before if s.path not in kept]
