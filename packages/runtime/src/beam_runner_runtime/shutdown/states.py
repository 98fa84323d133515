"""The states of the server, of each kind of process, and of the units of work that a server runs in processes.

The value of a member is the meaning of the state.
"""

from __future__ import annotations

import enum


class ServerState(enum.Enum):
    """States of the job server's process."""

    STARTING = "imports Beam, opens the state folder, and starts the placement"
    SERVING = "runs jobs"
    STOPPING = "ends or suspends jobs, and then the placement"
    GONE = "exited"


class JobPhase(enum.Enum):
    """States of a job's thread in the server."""

    WAITING = "waits for its turn to begin"
    RUNNING = "runs bundles"
    CANCELLING = "has a cancel request, which is not on record yet"
    SUSPENDING = "waits for running work before it is left to the next server"
    TEARING_DOWN = "waits until all processes report `Closed` and exit"
    ABORTING = "waits until all processes exit after `ExitNow`"
    GONE = "ended, or left to the next server"


class LaneState(enum.Enum):
    """States of a lane in the server: a place for one bundle at a time in a worker process."""

    STARTING = "waits for a worker process"
    IDLE = "waits for a bundle"
    BUNDLE = "runs a bundle"
    LOOP = "runs the loop, which has the scheduler of the job"
    GONE = "closed, or lost with its process"


class SectionLife(enum.Enum):
    """States of a section in the server: stages that the placement runs as tasks."""

    RUNNING = "its tasks run"
    CANCELLED = "its tasks are cancelled"
    GONE = "ended"


class WorkerState(enum.Enum):
    """States of a Python worker process."""

    STANDING_BY = "asks the server for its first lane"
    WORKING = "works for a job"
    GIVING_UP = "ends its running bundle early, and begins no bundle in an SDK harness"
    TEARING_DOWN = "tears down its DoFns"
    ENDING = "tears down its DoFns unless that is done, and then reports `Closed`"
    CLOSED = "waits for `Goodbye`"
    ABORTING = "exits at once"
    GONE = "exited, or can't be reached"


class HarnessState(enum.Enum):
    """States of an SDK harness that a worker process has started."""

    STARTING = "has not connected yet"
    WORKING = "is connected to its worker process"
    ENDING = "tears down its DoFns and exits"
    GONE = "exited"


class ForkServerState(enum.Enum):
    """States of the process that workers are forked from."""

    IMPORTING = "imports the modules that workers need"
    READY = "forks workers"
    STOPPING = "kills its workers and exits"
    LOST = "exited and isn't replaced: too many of them exited before they were ready"
    GONE = "exited after a request"


class ReaperState(enum.Enum):
    """States of the process that outlives the fork server and kills what remains of its descendants."""

    WATCHING = "kills orphans"
    ENDING = "waits for its descendants, and kills what remains of them"
    GONE = "exited"


class ProgramState(enum.Enum):
    """States of the user's program that runs user code over LOOPBACK."""

    WORKING = "is connected to a worker process"
    GONE = "exited"
