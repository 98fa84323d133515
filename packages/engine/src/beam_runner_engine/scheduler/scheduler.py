"""The scheduler: one object that is told what happens and says what to do."""

from __future__ import annotations

from beam_runner_model.failures import EndingKind
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.waits import Wait

from beam_runner_engine.scheduler.attempts import lose_attempts
from beam_runner_engine.scheduler.bundles import commit, fail, fail_job
from beam_runner_engine.scheduler.checks import check, unfit
from beam_runner_engine.scheduler.clock import advance_clock
from beam_runner_engine.scheduler.commands import Bundle, Command, ReleaseData, SplitBundle
from beam_runner_engine.scheduler.delivery import deliver
from beam_runner_engine.scheduler.drain import cancel, drain
from beam_runner_engine.scheduler.errors import GraphError, HostCodeError
from beam_runner_engine.scheduler.events import (
    Abort,
    AttemptsLost,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Event,
    GiveWay,
    Progress,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.graph import ROOT, Graph, compile_graph
from beam_runner_engine.scheduler.policy import (
    DefaultPolicy,
    DefaultSectionPolicy,
    SectionPolicy,
    SplittingPolicy,
)
from beam_runner_engine.scheduler.reports import Retry, StageReport, report, retries, waits
from beam_runner_engine.scheduler.section_bundles import commit_section, refuse
from beam_runner_engine.scheduler.sections import find_sections
from beam_runner_engine.scheduler.specs import AddElements, GraphSpec, Limits
from beam_runner_engine.scheduler.splits import give_way, note_progress, take_split
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, new_state
from beam_runner_engine.scheduler.termination import settle
from beam_runner_engine.scheduler.transitions import Phase, Reaction
from beam_runner_engine.scheduler.wakeups import tell_next_wake
from beam_runner_engine.scheduler.watermarks import set_producer


class Scheduler:
    """Decides when which stage of a job processes which data.

    It has no clock, thread or randomness: `handle` is the only way to change it, and the same
    events give the same commands. Not safe for use by several threads at once. Can be
    pickled for another process of this version; what is to be stored is its `state`.
    """

    def __init__(
        self,
        graph: GraphSpec,
        limits: Limits | None = None,
        policy: SplittingPolicy | None = None,
        section_policy: SectionPolicy | None = None,
    ) -> None:
        """Checks the graph; GraphError says what is wrong with it."""
        compiled = compile_graph(graph)
        _check_steps(compiled)
        limits = limits or Limits()
        self._state = new_state(
            compiled,
            limits,
            policy or DefaultPolicy(),
            section_policy or DefaultSectionPolicy(),
            find_sections(compiled, limits.section_exchanges),
        )

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Works in an event and returns what to do, in order.

        IllegalEvent when the event is not allowed now, and then nothing has changed. Events of
        closed bundles and ended jobs are legal and change nothing. The job fails if a policy or a
        window mapping raises. The cost does not depend on how
        many stages or shards there are, only on those that the event concerns.
        """
        state = self._state
        if check(state, event) is Reaction.IGNORE:
            return ()
        try:
            _act(state, event)
            settle(state)
        except HostCodeError as error:
            fail_job(state, str(error), EndingKind.SERVER, error.stage, (error.problem,))
        return _take_commands(state)

    @property
    def phase(self) -> Phase:
        """Where the job is."""
        return self._state.phase

    @property
    def open_bundles(self) -> tuple[Bundle, ...]:
        """The bundles that are running, at their latest attempts: what a host runs again after it
        was lost.
        """
        return tuple(record.bundle for record in self._running() if record.due is None)

    @property
    def paused_bundles(self) -> tuple[Bundle, ...]:
        """The bundles in the pause before another attempt, at that attempt: a host doesn't run these."""
        return tuple(record.bundle for record in self._running() if record.due is not None)

    @property
    def open_splits(self) -> tuple[SplitBundle, ...]:
        """The splits asked for and not answered: what a host asks again after it was lost."""
        return tuple(record.split for record in self._running() if record.split is not None)

    @property
    def now(self) -> Timestamp:
        """The processing time (ms) that it was told last."""
        return self._state.now

    @property
    def next_wake(self) -> Timestamp | None:
        """The processing time (ms) at which the next tick is needed, None if at none."""
        state = self._state
        return state.clock_wakes.min() if state.clock_wakes and not state.scripted_clock else None

    def report(self, stage: str) -> StageReport:
        """Returns a stage's watermarks and backlog; KeyError for an unknown stage."""
        return report(self._state.stages[self._state.numbers[stage]])

    def retries(self) -> tuple[Retry, ...]:
        """Returns the open bundles of which an attempt failed, oldest first."""
        return retries(self._running())

    def waits(self) -> tuple[Wait, ...]:
        """Returns what every stage that is not complete waits for."""
        return waits(self._state)

    @property
    def state(self) -> SchedulerState:
        """All that it knows, as records for a host to write down in a form of its own; the host must not
        change them.
        """
        return self._state

    def _running(self) -> tuple[BundleRecord, ...]:
        """Returns the records of open bundles; the records of a job that has ended are a savepoint."""
        return tuple(self._state.bundles.values()) if self._state.running else ()

    @classmethod
    def of_state(cls, state: SchedulerState) -> Scheduler:
        """Returns the scheduler that knows just this, and goes on from it; the state is its own now."""
        scheduler = cls.__new__(cls)
        scheduler._state = state
        return scheduler


def _check_steps(graph: Graph) -> None:
    for stream in graph.test_streams:
        for step in stream.steps:
            if isinstance(step, AddElements):
                why = unfit(graph.collections[step.collection], step.data)
                if why:
                    raise GraphError(f"TestStream {stream.name!r}: {why}")


def _act(state: SchedulerState, event: Event) -> None:
    match event:
        case Start():
            _start(state, event)
        case Tick(now):
            if not state.scripted_clock:
                advance_clock(state, now)
        case BundleDone(number) if state.bundles[number].section is not None:
            commit_section(state, event)
        case BundleDone():
            commit(state, event)
        case SectionRefused():
            refuse(state, event)
        case BundleFailed():
            fail(state, event)
        case AttemptsLost():
            lose_attempts(state)
        case Progress():
            note_progress(state, event)
        case GiveWay():
            give_way(state, event)
        case SplitDone():
            take_split(state, event)
        case Drain():
            drain(state)
        case Cancel():
            cancel(state)
        case Abort(reason, kind):
            fail_job(state, reason, kind)


def _start(state: SchedulerState, event: Start) -> None:
    state.phase = Phase.RUNNING
    state.now = event.now
    for root in event.roots:
        deliver(state, root.collection, root.data)
    for name in state.graph.roots:
        set_producer(state, state.collections[name], ROOT, MAX_TIMESTAMP)


def _take_commands(state: SchedulerState) -> tuple[Command, ...]:
    if state.running:
        tell_next_wake(state)
    commands, state.commands = state.commands, []
    released, state.released = state.released, []
    if released:
        commands.append(ReleaseData(tuple(released)))
    return tuple(commands)
