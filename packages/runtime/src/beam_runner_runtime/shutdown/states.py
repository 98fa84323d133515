"""The states of the server, of each kind of process, and of the units of work that a server runs in
processes.

The value of each member is a description of the state.
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

    WAITING = "waits for its start"
    RUNNING = "runs bundles"
    CANCELLING = "has a cancel request that is not persisted yet"
    SUSPENDING = "waits for running work before it is left to the next server"
    TEARING_DOWN = "waits until all processes report `WorkerClosed` and exit"
    ABORTING = "waits until all processes exit after `ExitProcess`"
    GONE = "ended, or left to the next server"


class LaneState(enum.Enum):
    """States of a lane, which is a slot for one bundle at a time in a worker process."""

    STARTING = "waits for a worker process"
    IDLE = "waits for a bundle"
    BUNDLE = "runs a bundle"
    LOOP = "runs the loop, which has the scheduler of the job"
    GONE = "closed, or lost with its process"


class SectionLifecycle(enum.Enum):
    """States of a section, which consists of stages that the placement runs as tasks."""

    RUNNING = "its tasks run"
    CANCELLED = "its tasks are cancelled"
    GONE = "ended"


class WorkerState(enum.Enum):
    """States of a Python worker process."""

    STANDING_BY = "requests its first lane from the server"
    WORKING = "works for a job"
    GIVING_UP = "ends its running bundle early, and starts no bundle in an SDK harness"
    TEARING_DOWN = "tears down its DoFns"
    ENDING = "tears down its DoFns if necessary, and then reports `WorkerClosed`"
    CLOSED = "waits for `ConfirmExit`"
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
    LOST = "exited and isn't replaced, because too many fork servers exited before they were ready"
    GONE = "exited after a request"


class ReaperState(enum.Enum):
    """States of the process that outlives the fork server and kills its remaining descendants."""

    WATCHING = "kills orphans"
    ENDING = "waits for its descendants, and kills the remaining ones"
    GONE = "exited"


class ProgramState(enum.Enum):
    """States of the user's program that runs user code over LOOPBACK."""

    WORKING = "is connected to a worker process"
    GONE = "exited"
