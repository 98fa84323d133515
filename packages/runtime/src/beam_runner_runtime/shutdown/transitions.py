"""Table of transitions: a state, a cause, and the next state. Any other pair of state and cause is
a defect of the runner.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from beam_runner_runtime.shutdown.causes import Cause, ShutdownEvent, ShutdownMessage
from beam_runner_runtime.shutdown.states import (
    ForkServerState,
    HarnessState,
    JobPhase,
    LaneState,
    ProgramState,
    ReaperState,
    SectionLifecycle,
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
    """Returns the table's rows for one state. Each argument contains one or several causes and the next state."""
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
        (ShutdownEvent.EXITED, WorkerState.GONE),
    )


_W, _J, _S = WorkerState, JobPhase, ServerState
_WORKERS = (
    *_make_rows(_W.STANDING_BY, (ShutdownEvent.ASSIGNED, _W.WORKING)),
    *_make_rows(_W.STANDING_BY, ((ShutdownEvent.SENT_AWAY, ShutdownEvent.EXITED), _W.GONE)),
    *_make_unchanged_rows(
        _W.WORKING, ShutdownEvent.WORK_SENT, ShutdownMessage.LeaveLoop, ShutdownMessage.CloseLane
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
    # The server may send these messages before it reads `WorkerClosed`.
    *_make_unchanged_rows(
        _W.CLOSED,
        ShutdownEvent.WORK_SENT,
        *(m for m in ShutdownMessage if m is not ShutdownMessage.ExitProcess),
    ),
    *_make_rows(
        _W.CLOSED, (ShutdownMessage.ExitProcess, _W.ABORTING), (ShutdownEvent.EXITED, _W.GONE)
    ),
    *_make_unchanged_rows(_W.ABORTING, ShutdownEvent.WORK_SENT, *ShutdownMessage),
    *_make_rows(_W.ABORTING, (ShutdownEvent.EXITED, _W.GONE)),
    *_make_unchanged_rows(_W.GONE, ShutdownEvent.WORK_SENT, *ShutdownMessage),
)
_JOBS = (
    *_make_rows(_J.WAITING, (ShutdownEvent.BEGUN, _J.RUNNING)),
    *_make_rows(_J.RUNNING, (ShutdownEvent.CANCEL_REQUESTED, _J.CANCELLING)),
    *_make_unchanged_rows(_J.CANCELLING, ShutdownEvent.CANCEL_REQUESTED),
    *_make_unchanged_rows(
        _J.SUSPENDING, ShutdownEvent.CANCEL_REQUESTED, ShutdownEvent.SUSPEND_REQUESTED
    ),
    *(
        row
        for state in (_J.WAITING, _J.RUNNING, _J.CANCELLING)
        for row in _make_rows(
            state,
            (ShutdownEvent.SUSPEND_REQUESTED, _J.SUSPENDING),
            (ShutdownEvent.IN_ORDER, _J.TEARING_DOWN),
            (ShutdownEvent.AT_ONCE, _J.ABORTING),
        )
    ),
    *_make_rows(_J.SUSPENDING, (ShutdownEvent.AT_ONCE, _J.ABORTING)),
    *_make_rows(
        _J.TEARING_DOWN, (ShutdownEvent.ALL_GONE, _J.GONE), (ShutdownEvent.LATE, _J.ABORTING)
    ),
    *_make_rows(_J.ABORTING, ((ShutdownEvent.ALL_GONE, ShutdownEvent.LATE), _J.GONE)),
)
_LANES = (
    *_make_rows(
        LaneState.STARTING,
        (ShutdownEvent.BEGUN, LaneState.IDLE),
        (ShutdownEvent.EXITED, LaneState.GONE),
    ),
    *_make_rows(
        LaneState.IDLE,
        (ShutdownEvent.WORK_SENT, LaneState.BUNDLE),
        (ShutdownEvent.LOOP_SENT, LaneState.LOOP),
        ((ShutdownMessage.CloseLane, ShutdownEvent.EXITED), LaneState.GONE),
    ),
    *_make_rows(
        LaneState.BUNDLE,
        (ShutdownEvent.WORK_DONE, LaneState.IDLE),
        (ShutdownEvent.EXITED, LaneState.GONE),
    ),
    *_make_rows(
        LaneState.LOOP,
        (ShutdownMessage.LeaveLoop, LaneState.LOOP),
        (ShutdownEvent.WORK_DONE, LaneState.IDLE),
        ((ShutdownMessage.ExitProcess, ShutdownEvent.EXITED), LaneState.GONE),
    ),
)
_SECTIONS = (
    *_make_rows(SectionLifecycle.RUNNING, (ShutdownEvent.WORK_DONE, SectionLifecycle.GONE)),
    *_make_rows(SectionLifecycle.RUNNING, (ShutdownEvent.AT_ONCE, SectionLifecycle.CANCELLED)),
    *_make_rows(
        SectionLifecycle.CANCELLED,
        ((ShutdownEvent.WORK_DONE, ShutdownEvent.LATE), SectionLifecycle.GONE),
    ),
)
_SERVERS = (
    *_make_rows(
        _S.STARTING, (ShutdownEvent.BEGUN, _S.SERVING), (ShutdownEvent.STOP_REQUESTED, _S.STOPPING)
    ),
    *_make_rows(
        _S.SERVING, ((ShutdownEvent.STOP_REQUESTED, ShutdownEvent.OWNER_GONE), _S.STOPPING)
    ),
    *_make_unchanged_rows(_S.STOPPING, ShutdownEvent.STOP_REQUESTED),
    *_make_rows(_S.STOPPING, ((ShutdownEvent.ALL_GONE, ShutdownEvent.LATE), _S.GONE)),
    *(
        StateTransition(state, ShutdownEvent.EXITED, _S.GONE)
        for state in _S
        if state is not _S.GONE
    ),
)
_F, _R, _H = ForkServerState, ReaperState, HarnessState
_FORK_SERVERS = (
    *_make_rows(
        _F.IMPORTING,
        (ShutdownEvent.BEGUN, _F.READY),
        (ShutdownEvent.EXITED, _F.IMPORTING),
        (ShutdownEvent.LATE, _F.LOST),
        (ShutdownEvent.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_rows(
        _F.READY,
        (ShutdownEvent.EXITED, _F.IMPORTING),
        (ShutdownEvent.LATE, _F.LOST),
        (ShutdownEvent.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_unchanged_rows(
        _F.STOPPING, ShutdownEvent.BEGUN, ShutdownEvent.LATE, ShutdownEvent.STOP_REQUESTED
    ),
    *_make_rows(_F.STOPPING, (ShutdownEvent.EXITED, _F.GONE)),
    *_make_unchanged_rows(
        _F.LOST, ShutdownEvent.LATE, ShutdownEvent.STOP_REQUESTED, ShutdownEvent.EXITED
    ),
    *_make_unchanged_rows(_F.GONE, ShutdownEvent.STOP_REQUESTED),
)
_REAPERS = (
    *_make_rows(_R.WATCHING, ((ShutdownEvent.OWNER_GONE, ShutdownEvent.STOP_REQUESTED), _R.ENDING)),
    *_make_rows(_R.WATCHING, (ShutdownEvent.EXITED, _R.GONE)),
    *_make_rows(
        _R.ENDING, ((ShutdownEvent.ALL_GONE, ShutdownEvent.LATE, ShutdownEvent.EXITED), _R.GONE)
    ),
)
_HARNESSES = (
    *_make_rows(
        _H.STARTING,
        (ShutdownEvent.BEGUN, _H.WORKING),
        ((ShutdownEvent.LATE, ShutdownEvent.EXITED), _H.GONE),
    ),
    *_make_rows(
        _H.WORKING, (ShutdownEvent.STOP_REQUESTED, _H.ENDING), (ShutdownEvent.EXITED, _H.GONE)
    ),
    *_make_rows(_H.ENDING, ((ShutdownEvent.LATE, ShutdownEvent.EXITED), _H.GONE)),
)
_PROGRAMS = _make_rows(ProgramState.WORKING, (ShutdownEvent.EXITED, ProgramState.GONE))

TRANSITIONS: tuple[StateTransition, ...] = (
    *(*_SERVERS, *_JOBS, *_LANES, *_SECTIONS, *_WORKERS),
    *(*_HARNESSES, *_FORK_SERVERS, *_REAPERS, *_PROGRAMS),
)
"""All transitions of all kinds of processes, in the order of the module ``states``."""
