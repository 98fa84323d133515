"""Scheduler of a job: an object that takes events and returns commands."""

from __future__ import annotations

from typing import Any

from beam_runner_model.failures import JobFailureKind
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.waits import Wait

from beam_runner_engine.scheduler.attempts import restart_attempts
from beam_runner_engine.scheduler.bundles import commit_bundle, fail_bundle, fail_job
from beam_runner_engine.scheduler.checks import check_event, describe_missing_statistics
from beam_runner_engine.scheduler.clock import advance_clock
from beam_runner_engine.scheduler.commands import Bundle, Command, ReleaseData, SplitBundle
from beam_runner_engine.scheduler.delivery import deliver_data, deliver_data_again
from beam_runner_engine.scheduler.drain import cancel_job, start_drain
from beam_runner_engine.scheduler.errors import GraphError, HostCodeError
from beam_runner_engine.scheduler.events import (
    Abort,
    AttemptsLost,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Event,
    Hold,
    Progress,
    Redeliver,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
    YieldRequested,
)
from beam_runner_engine.scheduler.graph import ROOT, Graph, compile_graph
from beam_runner_engine.scheduler.holding import is_idle, pause_stages
from beam_runner_engine.scheduler.policy import (
    DefaultPolicy,
    DefaultSectionPolicy,
    SectionPolicy,
    SplittingPolicy,
)
from beam_runner_engine.scheduler.reports import (
    RetryReport,
    StageReport,
    create_stage_report,
    list_retried_bundles,
    list_wait_reasons,
)
from beam_runner_engine.scheduler.section_bundles import commit_section, refuse_section
from beam_runner_engine.scheduler.sections import find_sections
from beam_runner_engine.scheduler.specs import AddElements, GraphSpec, Limits
from beam_runner_engine.scheduler.splits import (
    apply_split,
    record_progress,
    request_yield_checkpoint,
)
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, create_state
from beam_runner_engine.scheduler.termination import apply_event_consequences
from beam_runner_engine.scheduler.transitions import Phase, Reaction
from beam_runner_engine.scheduler.wakeups import request_next_tick
from beam_runner_engine.scheduler.watermarks import set_producer_watermark


class Scheduler:
    """State machine that decides when each stage of a job processes which data.

    Only `handle_event` changes the scheduler. The scheduler uses no clock, threads or randomness,
    so the same events always produce the same commands. The class is not thread-safe. A scheduler
    can be pickled for another process with the same version; store its `state` for later versions.
    """

    def __init__(
        self,
        graph: GraphSpec,
        limits: Limits | None = None,
        policy: SplittingPolicy | None = None,
        section_policy: SectionPolicy | None = None,
    ) -> None:
        """Validates the graph and creates the scheduler.

        Args:
            graph: the stages and TestStreams of the job.
            limits: the limits on parallelism and attempts; defaults to `Limits()`.
            policy: the splitting policy; defaults to `DefaultPolicy()`.
            section_policy: the section policy; defaults to `DefaultSectionPolicy()`.

        Raises:
            GraphError: If the graph is invalid.
        """
        compiled = compile_graph(graph)
        _check_test_stream_facts(compiled)
        limits = limits or Limits()
        self._state = create_state(
            compiled,
            limits,
            policy or DefaultPolicy(),
            section_policy or DefaultSectionPolicy(),
            find_sections(compiled, limits.section_exchanges),
        )

    def handle_event(self, event: Event) -> tuple[Command, ...]:
        """Applies an event and returns the commands for the caller, in execution order.

        Events of closed bundles and finished jobs are legal and have no effect. If a policy or a
        window mapping raises an error, the job fails. The cost depends on the stages and shards
        that the event affects, and not on the size of the graph.

        Raises:
            IllegalEvent: If the event isn't allowed now. The state is unchanged.
        """
        state = self._state
        if check_event(state, event) is Reaction.IGNORE:
            return ()
        try:
            _apply_event(state, event)
            apply_event_consequences(state)
        except HostCodeError as error:
            fail_job(state, str(error), JobFailureKind.SERVER, error.stage, (error.problem,))
        return take_commands(state)

    @property
    def phase(self) -> Phase:
        """Phase of the job, such as running or draining."""
        return self._state.phase

    @property
    def open_bundles(self) -> tuple[Bundle, ...]:
        """Running bundles at their latest attempts. A caller that restarts must run these bundles
        again.
        """
        return tuple(record.bundle for record in self._open_bundle_records() if record.due is None)

    @property
    def paused_bundles(self) -> tuple[Bundle, ...]:
        """Bundles that wait for their next attempt. The caller must not run these bundles yet."""
        return tuple(
            record.bundle for record in self._open_bundle_records() if record.due is not None
        )

    @property
    def open_splits(self) -> tuple[SplitBundle, ...]:
        """Pending split requests. A caller that restarts must send these requests again."""
        return tuple(
            record.split for record in self._open_bundle_records() if record.split is not None
        )

    @property
    def held_stages(self) -> tuple[str, ...]:
        """Names of the stages that the latest `Hold` event holds."""
        return tuple(self._state.stages[number].spec.name for number in self._state.held)

    @property
    def is_idle(self) -> bool:
        """Whether the job is running and has no open bundle."""
        return is_idle(self._state)

    @property
    def now(self) -> Timestamp:
        """Latest processing time (ms) that a `Start` or `Tick` event reported."""
        return self._state.now

    @property
    def next_wake(self) -> Timestamp | None:
        """Processing time (ms) at which the scheduler needs the next tick, or None if no tick is
        needed.
        """
        state = self._state
        return (
            state.clock_wakes.get_earliest_time()
            if state.clock_wakes and not state.scripted_clock
            else None
        )

    def create_stage_report(self, stage: str) -> StageReport:
        """Returns the watermarks and the backlog of a stage.

        Raises:
            KeyError: If no stage has this name.
        """
        return create_stage_report(self._state.stages[self._state.numbers[stage]])

    def list_retried_bundles(self) -> tuple[RetryReport, ...]:
        """Returns the open bundles with failed attempts, oldest bundle first."""
        return list_retried_bundles(self._open_bundle_records())

    def get_failure_detail(self, bundle: int) -> Any:
        """Returns the caller's record of the latest failure of an open bundle in user code.

        None if no attempt has failed in user code. See `BundleFailed.detail`.
        """
        record = self._state.bundles.get(bundle)
        return None if record is None else record.failures.user_detail

    def list_wait_reasons(self) -> tuple[Wait, ...]:
        """Returns the conditions that each incomplete stage waits for, such as data or timers."""
        return list_wait_reasons(self._state)

    @property
    def state(self) -> SchedulerState:
        """State of the scheduler, which callers can serialize. Callers must not change the state."""
        return self._state

    def _open_bundle_records(self) -> tuple[BundleRecord, ...]:
        """Returns the records of open bundles, or nothing if the job has ended. Records of an ended
        job serve as a savepoint.
        """
        return tuple(self._state.bundles.values()) if self._state.running else ()

    @classmethod
    def from_state(cls, state: SchedulerState) -> Scheduler:
        """Returns a scheduler that continues from this state and owns the state from then on."""
        scheduler = cls.__new__(cls)
        scheduler._state = state
        return scheduler


def _check_test_stream_facts(graph: Graph) -> None:
    for stream in graph.test_streams:
        for step in stream.steps:
            if isinstance(step, AddElements):
                why = describe_missing_statistics(graph.collections[step.collection], step.data)
                if why:
                    raise GraphError(f"TestStream {stream.name!r}: {why}")


def _apply_event(state: SchedulerState, event: Event) -> None:
    match event:
        case Start():
            _start_job(state, event)
        case Tick(now):
            if not state.scripted_clock:
                advance_clock(state, now)
        case BundleDone(number) if state.bundles[number].section is not None:
            commit_section(state, event)
        case BundleDone():
            commit_bundle(state, event)
        case SectionRefused():
            refuse_section(state, event)
        case BundleFailed():
            fail_bundle(state, event)
        case AttemptsLost():
            restart_attempts(state)
        case Progress():
            record_progress(state, event)
        case YieldRequested():
            request_yield_checkpoint(state, event)
        case SplitDone():
            apply_split(state, event)
        case Hold(stages):
            pause_stages(state, stages)
        case Redeliver(stage, data):
            deliver_data_again(state, state.stages[state.numbers[stage]], data)
        case Drain():
            start_drain(state)
        case Cancel():
            cancel_job(state)
        case Abort(reason, kind):
            fail_job(state, reason, kind)


def _start_job(state: SchedulerState, event: Start) -> None:
    state.phase = Phase.RUNNING
    state.now = event.now
    for root in event.roots:
        deliver_data(state, root.collection, root.data)
    for name in state.graph.roots:
        set_producer_watermark(state, state.collections[name], ROOT, MAX_TIMESTAMP)


def take_commands(state: SchedulerState) -> tuple[Command, ...]:
    """Removes and returns the commands of the current event."""
    if state.running:
        request_next_tick(state)
    commands, state.commands = state.commands, []
    released, state.released = state.released, []
    if released:
        commands.append(ReleaseData(tuple(released)))
    return tuple(commands)
