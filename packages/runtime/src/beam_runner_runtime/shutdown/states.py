"""States of the server, of each kind of process, of jobs, of lanes (worker slots) and of sections
(Spark jobs).

The value of each member is a description of the state.
"""

from __future__ import annotations

import enum


class ServerState(enum.Enum):
    """States of the job server's process."""

    STARTING = "opens the state folder and starts the placement"
    SERVING = "runs jobs"
    STOPPING = "ends or suspends jobs, and then the placement"
    GONE = "exited"


class JobPhase(enum.Enum):
    """States of a job's thread in the server."""

    WAITING = "waits for its start"
    RUNNING = "runs bundles"
    CANCELLING = "persists a cancel request"
    SUSPENDING = "waits for running work"
    TEARING_DOWN = "waits for `WorkerClosed` and the exit of all processes"
    ABORTING = "waits for the exit of all processes after `ExitProcess`"
    GONE = "ended, or left to the next server"


class LaneState(enum.Enum):
    """States of a lane, which is a slot for one bundle at a time in a worker process."""

    STARTING = "waits for a worker process"
    IDLE = "waits for a bundle"
    BUNDLE = "runs a bundle"
    LOOP = "runs the loop"
    GONE = "closed, or lost with its process"


class SectionLifecycle(enum.Enum):
    """States of a section (several stages that run as one Spark job)."""

    RUNNING = "its tasks run"
    CANCELLED = "its tasks are cancelled"
    GONE = "ended"


class WorkerState(enum.Enum):
    """States of a Python worker process."""

    STANDING_BY = "requests its first lane from the server"
    WORKING = "works for a job"
    GIVING_UP = "ends its running bundle early"
    TEARING_DOWN = "tears down its DoFns"
    ENDING = "tears down its DoFns and reports `WorkerClosed`"
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
    """States of the fork server, the process from which workers are forked."""

    IMPORTING = "imports the modules that workers need"
    READY = "forks workers"
    STOPPING = "kills its workers and exits"
    LOST = "exited and isn't replaced after `fork_server_attempts`"
    GONE = "exited after a request"


class ReaperState(enum.Enum):
    """States of the reaper, the process that kills the descendants of the fork server that remain after its exit."""

    WATCHING = "kills orphans"
    ENDING = "waits for its descendants and kills the remaining ones"
    GONE = "exited"


class ProgramState(enum.Enum):
    """States of the user's program that runs user code over LOOPBACK."""

    WORKING = "is connected to a worker process"
    GONE = "exited"
