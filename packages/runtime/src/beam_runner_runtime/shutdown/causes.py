"""The messages and events that change states."""

from __future__ import annotations

import enum


class ShutdownMessage(enum.Enum):
    """Messages of the channel that are about shutdown; names are those of the classes in ``channel.messages``.

    The value is the meaning.
    """

    LeaveLoop = "server to worker: hand the scheduler back after the running bundle"
    CloseLane = "server to worker: leave the lane when it is idle; the process continues"
    GiveUp = "server to worker: end the running bundle early"
    TearDown = "server to worker: tear down all DoFns; no bundle follows"
    EndJob = "server to worker: tear down all DoFns, then report `Closed`"
    ExitNow = "server to worker: exit at once"
    Closed = "worker to server: all DoFns are torn down, and nothing follows"
    Goodbye = "server to worker: everything has arrived, exit"


class Event(enum.Enum):
    """Events other than messages. The value is the meaning."""

    BEGUN = "it is ready"
    ASSIGNED = "the server gives it a lane of a job"
    SENT_AWAY = "the placement sends it away"
    WORK_SENT = "a bundle is sent"
    LOOP_SENT = "the loop is sent"
    WORK_DONE = "the reply has arrived, or the loop was left"
    CANCEL_REQUESTED = "the user cancels the job"
    STOP_REQUESTED = "a signal, or the end of its parent, asks for the end"
    SUSPEND_REQUESTED = "the server stops, and keeps its jobs"
    IN_ORDER = "the end of the job is on record, and it was not cancelled"
    AT_ONCE = "the job was cancelled, suspended, or has lost its placement"
    LATE = "the limit has passed"
    ALL_GONE = "all processes of the job exited"
    OWNER_GONE = "the process that it depends on exited"
    EXITED = "the process exited, or its connection broke"


Cause = ShutdownMessage | Event
