"""The transitions between states: a state, a cause, and the next state. Every other pair of state and cause is a defect."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from beam_runner_runtime.shutdown.causes import Cause, ShutdownMessage, StateEvent
from beam_runner_runtime.shutdown.states import (
    ForkServerState,
    HarnessState,
    JobPhase,
    LaneState,
    ProgramState,
    ReaperState,
    SectionState,
    ServerState,
    WorkerState,
)


@attrs.frozen
class StateTransition:
    """Transition from one state to another because of a cause."""

    before: enum.Enum
    cause: Cause
    after: enum.Enum


def _make_rows(
    before: enum.Enum, *targets: tuple[Cause | Iterable[Cause], enum.Enum]
) -> list[StateTransition]:
    """Returns the transitions from one state; a target contains one or several causes, and the next state."""
    rows = []
    for causes, after in targets:
        some = (causes,) if isinstance(causes, enum.Enum) else causes
        rows += [StateTransition(before, cause, after) for cause in some]
    return rows


def _make_unchanged_rows(before: enum.Enum, *causes: Cause) -> list[StateTransition]:
    return _make_rows(before, (causes, before))


def _make_end_rows(
    before: WorkerState, *others: tuple[Cause | Iterable[Cause], enum.Enum]
) -> list[StateTransition]:
    """Returns the transitions from a state in which a worker process works for a job."""
    return _make_rows(
        before,
        *others,
        (ShutdownMessage.ExitProcess, WorkerState.ABORTING),
        (ShutdownMessage.WorkerClosed, WorkerState.CLOSED),
        (StateEvent.EXITED, WorkerState.GONE),
    )


_W, _J, _S = WorkerState, JobPhase, ServerState
_WORKERS = (
    *_make_rows(_W.STANDING_BY, (StateEvent.ASSIGNED, _W.WORKING)),
    *_make_rows(_W.STANDING_BY, ((StateEvent.SENT_AWAY, StateEvent.EXITED), _W.GONE)),
    *_make_unchanged_rows(
        _W.WORKING, StateEvent.WORK_SENT, ShutdownMessage.LeaveLoop, ShutdownMessage.CloseLane
    ),
    *_make_end_rows(
        _W.WORKING,
        (ShutdownMessage.AbandonBundle, _W.GIVING_UP),
        (ShutdownMessage.TearDownDoFns, _W.TEARING_DOWN),
    ),
    *_make_rows(_W.WORKING, (ShutdownMessage.EndJob, _W.ENDING)),
    *_make_unchanged_rows(_W.GIVING_UP, ShutdownMessage.AbandonBundle, ShutdownMessage.CloseLane),
    *_make_end_rows(
        _W.GIVING_UP,
        (ShutdownMessage.TearDownDoFns, _W.TEARING_DOWN),
        (ShutdownMessage.EndJob, _W.ENDING),
    ),
    *_make_end_rows(
        _W.TEARING_DOWN,
        (ShutdownMessage.CloseLane, _W.TEARING_DOWN),
        (ShutdownMessage.EndJob, _W.ENDING),
    ),
    *_make_end_rows(_W.ENDING),
    # The server may send these before it reads `WorkerClosed`.
    *_make_unchanged_rows(
        _W.CLOSED,
        StateEvent.WORK_SENT,
        *(m for m in ShutdownMessage if m is not ShutdownMessage.ExitProcess),
    ),
    *_make_rows(
        _W.CLOSED, (ShutdownMessage.ExitProcess, _W.ABORTING), (StateEvent.EXITED, _W.GONE)
    ),
    *_make_unchanged_rows(_W.ABORTING, StateEvent.WORK_SENT, *ShutdownMessage),
    *_make_rows(_W.ABORTING, (StateEvent.EXITED, _W.GONE)),
    *_make_unchanged_rows(_W.GONE, StateEvent.WORK_SENT, *ShutdownMessage),
)
_JOBS = (
    *_make_rows(_J.WAITING, (StateEvent.BEGUN, _J.RUNNING)),
    *_make_rows(_J.RUNNING, (StateEvent.CANCEL_REQUESTED, _J.CANCELLING)),
    *_make_unchanged_rows(_J.CANCELLING, StateEvent.CANCEL_REQUESTED),
    *_make_unchanged_rows(_J.SUSPENDING, StateEvent.CANCEL_REQUESTED, StateEvent.SUSPEND_REQUESTED),
    *(
        row
        for state in (_J.WAITING, _J.RUNNING, _J.CANCELLING)
        for row in _make_rows(
            state,
            (StateEvent.SUSPEND_REQUESTED, _J.SUSPENDING),
            (StateEvent.IN_ORDER, _J.TEARING_DOWN),
            (StateEvent.AT_ONCE, _J.ABORTING),
        )
    ),
    *_make_rows(_J.SUSPENDING, (StateEvent.AT_ONCE, _J.ABORTING)),
    *_make_rows(_J.TEARING_DOWN, (StateEvent.ALL_GONE, _J.GONE), (StateEvent.LATE, _J.ABORTING)),
    *_make_rows(_J.ABORTING, ((StateEvent.ALL_GONE, StateEvent.LATE), _J.GONE)),
)
_LANES = (
    *_make_rows(
        LaneState.STARTING, (StateEvent.BEGUN, LaneState.IDLE), (StateEvent.EXITED, LaneState.GONE)
    ),
    *_make_rows(
        LaneState.IDLE,
        (StateEvent.WORK_SENT, LaneState.BUNDLE),
        (StateEvent.LOOP_SENT, LaneState.LOOP),
        ((ShutdownMessage.CloseLane, StateEvent.EXITED), LaneState.GONE),
    ),
    *_make_rows(
        LaneState.BUNDLE,
        (StateEvent.WORK_DONE, LaneState.IDLE),
        (StateEvent.EXITED, LaneState.GONE),
    ),
    *_make_rows(
        LaneState.LOOP,
        (ShutdownMessage.LeaveLoop, LaneState.LOOP),
        (StateEvent.WORK_DONE, LaneState.IDLE),
        ((ShutdownMessage.ExitProcess, StateEvent.EXITED), LaneState.GONE),
    ),
)
_SECTIONS = (
    *_make_rows(SectionState.RUNNING, (StateEvent.WORK_DONE, SectionState.GONE)),
    *_make_rows(SectionState.RUNNING, (StateEvent.AT_ONCE, SectionState.CANCELLED)),
    *_make_rows(
        SectionState.CANCELLED, ((StateEvent.WORK_DONE, StateEvent.LATE), SectionState.GONE)
    ),
)
_SERVERS = (
    *_make_rows(
        _S.STARTING, (StateEvent.BEGUN, _S.SERVING), (StateEvent.STOP_REQUESTED, _S.STOPPING)
    ),
    *_make_rows(_S.SERVING, ((StateEvent.STOP_REQUESTED, StateEvent.OWNER_GONE), _S.STOPPING)),
    *_make_unchanged_rows(_S.STOPPING, StateEvent.STOP_REQUESTED),
    *_make_rows(_S.STOPPING, ((StateEvent.ALL_GONE, StateEvent.LATE), _S.GONE)),
    *(StateTransition(state, StateEvent.EXITED, _S.GONE) for state in _S if state is not _S.GONE),
)
_F, _R, _H = ForkServerState, ReaperState, HarnessState
_FORK_SERVERS = (
    *_make_rows(
        _F.IMPORTING,
        (StateEvent.BEGUN, _F.READY),
        (StateEvent.EXITED, _F.IMPORTING),
        (StateEvent.LATE, _F.LOST),
        (StateEvent.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_rows(
        _F.READY,
        (StateEvent.EXITED, _F.IMPORTING),
        (StateEvent.LATE, _F.LOST),
        (StateEvent.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_unchanged_rows(
        _F.STOPPING, StateEvent.BEGUN, StateEvent.LATE, StateEvent.STOP_REQUESTED
    ),
    *_make_rows(_F.STOPPING, (StateEvent.EXITED, _F.GONE)),
    *_make_unchanged_rows(_F.LOST, StateEvent.LATE, StateEvent.STOP_REQUESTED, StateEvent.EXITED),
    *_make_unchanged_rows(_F.GONE, StateEvent.STOP_REQUESTED),
)
_REAPERS = (
    *_make_rows(_R.WATCHING, ((StateEvent.OWNER_GONE, StateEvent.STOP_REQUESTED), _R.ENDING)),
    *_make_rows(_R.WATCHING, (StateEvent.EXITED, _R.GONE)),
    *_make_rows(_R.ENDING, ((StateEvent.ALL_GONE, StateEvent.LATE, StateEvent.EXITED), _R.GONE)),
)
_HARNESSES = (
    *_make_rows(
        _H.STARTING, (StateEvent.BEGUN, _H.WORKING), ((StateEvent.LATE, StateEvent.EXITED), _H.GONE)
    ),
    *_make_rows(_H.WORKING, (StateEvent.STOP_REQUESTED, _H.ENDING), (StateEvent.EXITED, _H.GONE)),
    *_make_rows(_H.ENDING, ((StateEvent.LATE, StateEvent.EXITED), _H.GONE)),
)
_PROGRAMS = _make_rows(ProgramState.WORKING, (StateEvent.EXITED, ProgramState.GONE))

TRANSITIONS: tuple[StateTransition, ...] = (
    *(*_SERVERS, *_JOBS, *_LANES, *_SECTIONS, *_WORKERS),
    *(*_HARNESSES, *_FORK_SERVERS, *_REAPERS, *_PROGRAMS),
)
"""All transitions of all kinds of processes, in the order of the module ``states``."""
