"""Causes of state changes during shutdown: messages of the channel, and other events."""

from __future__ import annotations

import enum


class ShutdownMessage(enum.Enum):
    """Messages between server and worker processes that change states. The names are those of the
    classes in ``channel.messages``.

    The value of each member is a description of the message.
    """

    LeaveLoop = "server to worker: return the scheduler after the running bundle"
    CloseLane = "server to worker: close the idle lane; the process continues"
    AbandonBundle = "server to worker: end the running bundle early"
    TearDownDoFns = "server to worker: tear down all DoFns; no bundle follows"
    EndJob = "server to worker: tear down all DoFns and report `WorkerClosed`"
    ExitProcess = "server to worker: exit at once"
    WorkerClosed = "worker to server: all DoFns are torn down"
    ConfirmExit = "server to worker: exit after `WorkerClosed`"


class ShutdownEvent(enum.Enum):
    """Events that change states, other than messages. The value describes the event."""

    BEGUN = "the process is ready"
    ASSIGNED = "the process gets a lane of a job"
    SENT_AWAY = "the placement dismisses the process"
    WORK_SENT = "a bundle is sent"
    LOOP_SENT = "the loop is sent"
    WORK_DONE = "the bundle or the loop has ended"
    CANCEL_REQUESTED = "the user cancels the job"
    STOP_REQUESTED = "a signal or the exit of the parent process"
    SUSPEND_REQUESTED = "the server stops and retains its jobs"
    IN_ORDER = "the job ended, and wasn't cancelled"
    AT_ONCE = "the job was cancelled or suspended, or lost its placement"
    LATE = "the limit has passed"
    ALL_GONE = "all processes of the job exited"
    OWNER_GONE = "the process that owns it exited"
    EXITED = "the process exited or lost its connection"


Cause = ShutdownMessage | ShutdownEvent
