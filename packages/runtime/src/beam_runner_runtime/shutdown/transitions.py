"""The transitions between states: a state, a cause, and the next state. Every other pair of state and cause is a defect."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from beam_runner_runtime.shutdown.causes import Cause, Event, ShutdownMessage
from beam_runner_runtime.shutdown.states import (
    ForkServerState,
    HarnessState,
    JobPhase,
    LaneState,
    ProgramState,
    ReaperState,
    SectionLife,
    ServerState,
    WorkerState,
)


@attrs.frozen
class ShutdownStep:
    """One row of the table."""

    before: enum.Enum
    cause: Cause
    after: enum.Enum


def _make_rows(
    before: enum.Enum, *targets: tuple[Cause | Iterable[Cause], enum.Enum]
) -> list[ShutdownStep]:
    """Returns the rows of one state; a target is one cause or several, and the next state."""
    rows = []
    for causes, after in targets:
        some = (causes,) if isinstance(causes, enum.Enum) else causes
        rows += [ShutdownStep(before, cause, after) for cause in some]
    return rows


def _make_unchanged_rows(before: enum.Enum, *causes: Cause) -> list[ShutdownStep]:
    return _make_rows(before, (causes, before))


def _make_end_rows(
    before: WorkerState, *others: tuple[Cause | Iterable[Cause], enum.Enum]
) -> list[ShutdownStep]:
    """Returns the rows of a state in which a worker process works for a job."""
    return _make_rows(
        before,
        *others,
        (ShutdownMessage.ExitNow, WorkerState.ABORTING),
        (ShutdownMessage.Closed, WorkerState.CLOSED),
        (Event.EXITED, WorkerState.GONE),
    )


_W, _J, _S = WorkerState, JobPhase, ServerState
_WORKERS = (
    *_make_rows(_W.STANDING_BY, (Event.ASSIGNED, _W.WORKING)),
    *_make_rows(_W.STANDING_BY, ((Event.SENT_AWAY, Event.EXITED), _W.GONE)),
    *_make_unchanged_rows(
        _W.WORKING, Event.WORK_SENT, ShutdownMessage.LeaveLoop, ShutdownMessage.CloseLane
    ),
    *_make_end_rows(
        _W.WORKING,
        (ShutdownMessage.GiveUp, _W.GIVING_UP),
        (ShutdownMessage.TearDown, _W.TEARING_DOWN),
    ),
    *_make_rows(_W.WORKING, (ShutdownMessage.EndJob, _W.ENDING)),
    *_make_unchanged_rows(_W.GIVING_UP, ShutdownMessage.GiveUp, ShutdownMessage.CloseLane),
    *_make_end_rows(
        _W.GIVING_UP,
        (ShutdownMessage.TearDown, _W.TEARING_DOWN),
        (ShutdownMessage.EndJob, _W.ENDING),
    ),
    *_make_end_rows(
        _W.TEARING_DOWN,
        (ShutdownMessage.CloseLane, _W.TEARING_DOWN),
        (ShutdownMessage.EndJob, _W.ENDING),
    ),
    *_make_end_rows(_W.ENDING),
    # The server may send these before it reads `Closed`.
    *_make_unchanged_rows(
        _W.CLOSED,
        Event.WORK_SENT,
        *(m for m in ShutdownMessage if m is not ShutdownMessage.ExitNow),
    ),
    *_make_rows(_W.CLOSED, (ShutdownMessage.ExitNow, _W.ABORTING), (Event.EXITED, _W.GONE)),
    *_make_unchanged_rows(_W.ABORTING, Event.WORK_SENT, *ShutdownMessage),
    *_make_rows(_W.ABORTING, (Event.EXITED, _W.GONE)),
    *_make_unchanged_rows(_W.GONE, Event.WORK_SENT, *ShutdownMessage),
)
_JOBS = (
    *_make_rows(_J.WAITING, (Event.BEGUN, _J.RUNNING)),
    *_make_rows(_J.RUNNING, (Event.CANCEL_REQUESTED, _J.CANCELLING)),
    *_make_unchanged_rows(_J.CANCELLING, Event.CANCEL_REQUESTED),
    *_make_unchanged_rows(_J.SUSPENDING, Event.CANCEL_REQUESTED, Event.SUSPEND_REQUESTED),
    *(
        row
        for state in (_J.WAITING, _J.RUNNING, _J.CANCELLING)
        for row in _make_rows(
            state,
            (Event.SUSPEND_REQUESTED, _J.SUSPENDING),
            (Event.IN_ORDER, _J.TEARING_DOWN),
            (Event.AT_ONCE, _J.ABORTING),
        )
    ),
    *_make_rows(_J.SUSPENDING, (Event.AT_ONCE, _J.ABORTING)),
    *_make_rows(_J.TEARING_DOWN, (Event.ALL_GONE, _J.GONE), (Event.LATE, _J.ABORTING)),
    *_make_rows(_J.ABORTING, ((Event.ALL_GONE, Event.LATE), _J.GONE)),
)
_LANES = (
    *_make_rows(LaneState.STARTING, (Event.BEGUN, LaneState.IDLE), (Event.EXITED, LaneState.GONE)),
    *_make_rows(
        LaneState.IDLE,
        (Event.WORK_SENT, LaneState.BUNDLE),
        (Event.LOOP_SENT, LaneState.LOOP),
        ((ShutdownMessage.CloseLane, Event.EXITED), LaneState.GONE),
    ),
    *_make_rows(
        LaneState.BUNDLE, (Event.WORK_DONE, LaneState.IDLE), (Event.EXITED, LaneState.GONE)
    ),
    *_make_rows(
        LaneState.LOOP,
        (ShutdownMessage.LeaveLoop, LaneState.LOOP),
        (Event.WORK_DONE, LaneState.IDLE),
        ((ShutdownMessage.ExitNow, Event.EXITED), LaneState.GONE),
    ),
)
_SECTIONS = (
    *_make_rows(SectionLife.RUNNING, (Event.WORK_DONE, SectionLife.GONE)),
    *_make_rows(SectionLife.RUNNING, (Event.AT_ONCE, SectionLife.CANCELLED)),
    *_make_rows(SectionLife.CANCELLED, ((Event.WORK_DONE, Event.LATE), SectionLife.GONE)),
)
_SERVERS = (
    *_make_rows(_S.STARTING, (Event.BEGUN, _S.SERVING), (Event.STOP_REQUESTED, _S.STOPPING)),
    *_make_rows(_S.SERVING, ((Event.STOP_REQUESTED, Event.OWNER_GONE), _S.STOPPING)),
    *_make_unchanged_rows(_S.STOPPING, Event.STOP_REQUESTED),
    *_make_rows(_S.STOPPING, ((Event.ALL_GONE, Event.LATE), _S.GONE)),
    *(ShutdownStep(state, Event.EXITED, _S.GONE) for state in _S if state is not _S.GONE),
)
_F, _R, _H = ForkServerState, ReaperState, HarnessState
_FORK_SERVERS = (
    *_make_rows(
        _F.IMPORTING,
        (Event.BEGUN, _F.READY),
        (Event.EXITED, _F.IMPORTING),
        (Event.LATE, _F.LOST),
        (Event.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_rows(
        _F.READY,
        (Event.EXITED, _F.IMPORTING),
        (Event.LATE, _F.LOST),
        (Event.STOP_REQUESTED, _F.STOPPING),
    ),
    *_make_unchanged_rows(_F.STOPPING, Event.BEGUN, Event.LATE, Event.STOP_REQUESTED),
    *_make_rows(_F.STOPPING, (Event.EXITED, _F.GONE)),
    *_make_unchanged_rows(_F.LOST, Event.LATE, Event.STOP_REQUESTED, Event.EXITED),
    *_make_unchanged_rows(_F.GONE, Event.STOP_REQUESTED),
)
_REAPERS = (
    *_make_rows(_R.WATCHING, ((Event.OWNER_GONE, Event.STOP_REQUESTED), _R.ENDING)),
    *_make_rows(_R.WATCHING, (Event.EXITED, _R.GONE)),
    *_make_rows(_R.ENDING, ((Event.ALL_GONE, Event.LATE, Event.EXITED), _R.GONE)),
)
_HARNESSES = (
    *_make_rows(_H.STARTING, (Event.BEGUN, _H.WORKING), ((Event.LATE, Event.EXITED), _H.GONE)),
    *_make_rows(_H.WORKING, (Event.STOP_REQUESTED, _H.ENDING), (Event.EXITED, _H.GONE)),
    *_make_rows(_H.ENDING, ((Event.LATE, Event.EXITED), _H.GONE)),
)
_PROGRAMS = _make_rows(ProgramState.WORKING, (Event.EXITED, ProgramState.GONE))

TRANSITIONS: tuple[ShutdownStep, ...] = (
    *(*_SERVERS, *_JOBS, *_LANES, *_SECTIONS, *_WORKERS),
    *(*_HARNESSES, *_FORK_SERVERS, *_REAPERS, *_PROGRAMS),
)
"""All transitions, by kind in the order of ``states``."""
