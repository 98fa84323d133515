"""Table of kills: for each process and state, the detectors that notice if the process is killed.
Tests kill a process in each state.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_runtime.shutdown.detections import Detector
from beam_runner_runtime.shutdown.states import (
    ForkServerState,
    HarnessState,
    LaneState,
    ProgramState,
    ReaperState,
    ServerState,
    WorkerState,
)


@attrs.frozen
class KillRule:
    """Row of the table: the kill of a process in one state, the detectors that notice the kill, and
    the outcome.

    Attributes:
        state: the state of the process, or of the lane that the process serves, at the kill.
        detectors: all components that detect the loss.
        outcome: the consequence.
    """

    state: enum.Enum
    detectors: tuple[Detector, ...]
    outcome: str


_D = Detector
_LOST = (_D.CHANNEL, _D.WORKER_EXIT)
_SERVER = (_D.LOST_SERVER, _D.STAND_BY_CALL, _D.REAPER, _D.HARNESS_GUARD)
KILLS = (
    KillRule(WorkerState.STANDING_BY, (_D.WORKER_EXIT,), "another process stands by"),
    KillRule(WorkerState.WORKING, _LOST, "the lane starts again in another process"),
    KillRule(WorkerState.GIVING_UP, _LOST, "the job ends as without the kill"),
    KillRule(WorkerState.TEARING_DOWN, _LOST, "the job ends as without the kill"),
    KillRule(WorkerState.ENDING, _LOST, "the job ends as without the kill"),
    KillRule(WorkerState.CLOSED, (_D.WORKER_EXIT,), "the job ends as without the kill"),
    KillRule(WorkerState.ABORTING, (_D.WORKER_EXIT,), "the job ends as without the kill"),
    KillRule(LaneState.STARTING, (_D.WORKER_EXIT,), "the lane starts again in another process"),
    KillRule(LaneState.IDLE, _LOST, "the lane starts again when a bundle needs it"),
    KillRule(LaneState.BUNDLE, _LOST, "the bundle runs again"),
    KillRule(LaneState.LOOP, _LOST, "the unreported work of the loop runs again"),
    KillRule(HarnessState.STARTING, (_D.HARNESS_START,), "the bundle runs again"),
    KillRule(HarnessState.WORKING, (_D.HARNESS,), "the bundle runs again"),
    KillRule(HarnessState.ENDING, (_D.HARNESS,), "the job ends as without the kill"),
    KillRule(ForkServerState.IMPORTING, (_D.FORK_SERVER,), "another fork server starts"),
    KillRule(
        ForkServerState.READY,
        (_D.FORK_SERVER, _D.REAPER, *_LOST),
        "another fork server starts, and bundles of the lost workers run again",
    ),
    KillRule(ForkServerState.STOPPING, (_D.REAPER,), "the server stops as without the kill"),
    KillRule(
        ReaperState.WATCHING,
        (_D.PARENT_DEATH, _D.FORK_SERVER, *_LOST),
        "another fork server starts, and bundles of the lost workers run again",
    ),
    KillRule(ReaperState.ENDING, (_D.PARENT_DEATH,), "the fork server and its workers are killed"),
    KillRule(ServerState.STARTING, (_D.REAPER,), "no process remains"),
    KillRule(
        ServerState.SERVING, _SERVER, "no process remains; the next server continues the jobs"
    ),
    KillRule(
        ServerState.STOPPING, _SERVER, "no process remains; the next server continues the jobs"
    ),
    KillRule(ProgramState.WORKING, (_D.HARNESS,), "the job fails"),
)
"""Rules for all kinds of processes: one rule for each state in which a process can be killed."""
