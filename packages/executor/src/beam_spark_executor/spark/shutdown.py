"""Tables about the shutdown of Spark's processes: their states, the time limits, and the detection
of their loss.

``beam_runner_runtime.shutdown`` contains the tables about the runner's processes.
"""

from __future__ import annotations

import enum

import attrs
from beam_runner_runtime.shutdown.causes import ShutdownEvent
from beam_runner_runtime.shutdown.detections import DetectionRule
from beam_runner_runtime.shutdown.transitions import StateTransition


@attrs.define
class SparkLimits:
    """Limits of Spark's processes. `SPARK_LIMITS` is the only instance.

    Attributes:
        java_start_seconds: time for Spark's Java process to serve; then the server fails to start.
        java_kill_seconds: time for processes of Spark to exit after SIGKILL.
        session_stop_seconds: time for Spark to stop; then its Java process is killed.
        pulse_seconds: time for Spark to respond to a health check; then the log reports it.
        pulse_rest_seconds: time without a health check; then the thread that checks Spark exits.
        daemon_idle_seconds: time for which a Python daemon has no workers; then it exits. Spark itself removes an idle worker after 60 s, and checks every 10 s.
        worker_exit_seconds: time for the exit hooks of a Python worker; then the worker is killed.
        hand_over_seconds: time for Spark's fork server to accept a request; then the daemon imports the modules itself.
        fork_server_stop_seconds: time for Spark's fork server to exit.
    """

    java_start_seconds: float = 120.0
    java_kill_seconds: float = 5.0
    session_stop_seconds: float = 15.0
    pulse_seconds: float = 2.0
    pulse_rest_seconds: float = 10.0
    daemon_idle_seconds: float = 90.0
    worker_exit_seconds: int = 5
    hand_over_seconds: float = 10.0
    fork_server_stop_seconds: float = 10.0


SPARK_LIMITS = SparkLimits()
"""The limits of every server on Spark and its processes."""


class JavaState(enum.Enum):
    """States of Spark's Java process."""

    STARTING = "does not serve yet"
    SERVING = "runs tasks"
    STOPPING = "ends its tasks and exits"
    GONE = "exited"


class DaemonState(enum.Enum):
    """States of the process that forks Spark's Python workers."""

    READY = "forks workers"
    IDLE = "has no workers"
    GONE = "exited"


class ExecutorState(enum.Enum):
    """States of a Spark executor on a cluster."""

    WORKING = "runs tasks"
    GONE = "exited, or removed by Spark"


@attrs.frozen
class SparkDetection(DetectionRule):
    """One row of the table of detections, whose limits are fields of `SPARK_LIMITS`."""

    @property
    def seconds(self) -> float:
        """Longest time (s) until the component detects the failure, without the delays of a busy machine."""
        return sum(getattr(SPARK_LIMITS, name) for name in self.limits)


class SparkDetector(enum.Enum):
    """Detectors of failed or lost Spark processes: all rows of the table of detections."""

    JAVA_EXIT = SparkDetection(
        "spark.session (exit code)",
        "Spark's Java process exits",
        (),
        "jobs and the server stop; the next server can continue the jobs",
    )
    PULSE = SparkDetection(
        "spark.health_check",
        "Spark's Java process doesn't respond",
        ("pulse_seconds",),
        "the log reports it",
    )
    LANE_END = SparkDetection(
        "Spark (end of the lane's job)",
        "Spark loses a Python worker or an executor four times",
        (),
        "the lane has failed, and the next lane starts",
    )
    DAEMON_IDLE = SparkDetection(
        "spark.python_daemon (timer)",
        "a Python daemon has no workers",
        ("daemon_idle_seconds",),
        "the daemon exits",
    )
    SECTION = SparkDetection(
        "Spark (end of the section's job)",
        "Spark loses a task of a section four times",
        (),
        "the attempt at the section fails",
    )


_J, _D, _E = JavaState, DaemonState, ExecutorState
SPARK_TRANSITIONS: tuple[StateTransition, ...] = (
    StateTransition(_J.STARTING, ShutdownEvent.BEGUN, _J.SERVING),
    StateTransition(_J.STARTING, ShutdownEvent.LATE, _J.GONE),
    StateTransition(_J.STARTING, ShutdownEvent.EXITED, _J.GONE),
    StateTransition(_J.SERVING, ShutdownEvent.STOP_REQUESTED, _J.STOPPING),
    StateTransition(_J.SERVING, ShutdownEvent.EXITED, _J.GONE),
    StateTransition(_J.STOPPING, ShutdownEvent.EXITED, _J.GONE),
    StateTransition(_J.STOPPING, ShutdownEvent.LATE, _J.GONE),
    StateTransition(_D.READY, ShutdownEvent.WORK_DONE, _D.IDLE),
    StateTransition(_D.READY, ShutdownEvent.EXITED, _D.GONE),
    StateTransition(_D.IDLE, ShutdownEvent.WORK_SENT, _D.READY),
    StateTransition(_D.IDLE, ShutdownEvent.LATE, _D.GONE),
    StateTransition(_D.IDLE, ShutdownEvent.EXITED, _D.GONE),
    StateTransition(_E.WORKING, ShutdownEvent.SENT_AWAY, _E.GONE),
    StateTransition(_E.WORKING, ShutdownEvent.EXITED, _E.GONE),
)
"""All state transitions of Spark's processes, for the table of states."""
