"""Table of process failures: the component that detects the failure, the time limit, and the reaction."""

from __future__ import annotations

import enum
import logging

import attrs

from beam_runner_runtime.shutdown import limits

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class DetectionRule:
    """Row of the table: a failure, the component that detects it, and the time limit.

    Attributes:
        component: module that detects the failure.
        failure: description of the failure.
        limits: names of the limits whose sum is the longest time until the detection; empty if the
            operating system reports the failure without delay.
        reaction: consequence of the failure.
        is_logged: whether the component calls `log_detection`.
    """

    component: str
    failure: str
    limits: tuple[str, ...]
    reaction: str
    is_logged: bool = True

    @property
    def seconds(self) -> float:
        """Longest time (s) until the component detects the failure, without the delays of a busy machine."""
        return sum(getattr(limits.LIMITS, name) for name in self.limits)


class Detector(enum.Enum):
    """All detectors of failed processes. The value of each member is its rule."""

    CHANNEL = DetectionRule(
        "runtime.channel.server",
        "the connection of a worker process closes",
        (),
        "its bundle runs again in another process",
    )
    KEEPALIVE = DetectionRule(
        "runtime.channel.server (gRPC)",
        "a machine or its network vanishes",
        ("keepalive_seconds", "keepalive_answer_seconds"),
        "the connection closes, see CHANNEL",
        is_logged=False,
    )
    SILENCE = DetectionRule(
        "driver.lanes.processes (Beat)",
        "a worker process stops sending messages",
        ("silent_seconds", "condition_look_seconds"),
        "the job's page and messages report it: the process is suspended, or C code holds the GIL",
        is_logged=False,
    )
    VITALS = DetectionRule(
        "driver.lanes.processes (vitals)",
        "a worker process works, but its channel is broken",
        ("silent_seconds", "mute_seconds", "condition_look_seconds"),
        "the server kills the process, see CHANNEL",
    )
    WATCHDOG = DetectionRule(
        "driver.job.watch",
        "a process doesn't work on the bundle that it got",
        ("watchdog_seconds", "watchdog_look_seconds"),
        "the process gets `ExitProcess`, and the bundle runs again",
    )
    ESSENTIAL_THREAD = DetectionRule(
        "model.threads",
        "an essential thread ends with an error",
        (),
        "the worker process exits, the job fails, or the server stops",
        is_logged=False,
    )
    WORKER_EXIT = DetectionRule(
        "runtime.processes.placement (report, or end, of the fork server)",
        "a worker process exits",
        (),
        "its lane starts again in another process",
    )
    FORK_SERVER = DetectionRule(
        "runtime.processes.children (end of its output)",
        "the fork server exits",
        (),
        "the server starts another one; bundles of its workers run again",
    )
    PARENT_DEATH = DetectionRule(
        "the kernel (PR_SET_PDEATHSIG)",
        "the fork server exits before its workers, or a reaper before the fork server",
        (),
        "the kernel kills the child",
        is_logged=False,
    )
    REAPER = DetectionRule(
        "runtime.processes.reaper (pidfd)",
        "the server or the fork server exits",
        ("orphan_seconds",),
        "the reaper kills the remaining descendants of the fork server",
        is_logged=False,
    )
    ORPHANS = DetectionRule(
        "runtime.processes.reaper (children)",
        "a process outlives the worker process that started it",
        ("reaper_look_seconds", "orphan_seconds", "reaper_look_seconds"),
        "the reaper kills the process",
        is_logged=False,
    )
    LOST_SERVER = DetectionRule(
        "runtime.channel.client",
        "the server exits",
        (),
        "the worker process exits with code 1",
        is_logged=False,
    )
    STAND_BY_CALL = DetectionRule(
        "runtime.channel.client (stand_by)",
        "the server exits or doesn't respond while a process stands by",
        ("call_seconds",),
        "the process exits with code 1",
        is_logged=False,
    )
    HARNESS = DetectionRule(
        "worker.fnapi (connection)",
        "an SDK harness, or a LOOPBACK program, exits",
        (),
        "the next attempt starts another harness; over LOOPBACK the job fails",
        is_logged=False,
    )
    HARNESS_START = DetectionRule(
        "worker.fnapi (launcher)",
        "an SDK harness exits before it connects",
        (),
        "the next attempt starts another harness",
        is_logged=False,
    )
    HARNESS_GUARD = DetectionRule(
        "worker.fnapi.guarded (pipe)",
        "the worker process of an SDK harness exits",
        (),
        "the harness and its process group are killed",
        is_logged=False,
    )
    ABORT = DetectionRule(
        "runtime.channel.server (timer)",
        "a process on the server's machine does not exit after `ExitProcess`",
        ("kill_seconds",),
        "the server kills the process",
    )
    TEARDOWN = DetectionRule(
        "driver.job",
        "processes of a job do not exit after `EndJob`",
        ("teardown_seconds",),
        "they get `ExitProcess`",
    )
    CANCEL = DetectionRule(
        "driver.job",
        "the loop of a cancelled job doesn't respond",
        ("cancel_seconds",),
        "the placement kills the lanes",
        is_logged=False,
    )
    PLACEMENT = DetectionRule(
        "server.cli",
        "fork servers exit repeatedly at their start, or Spark's Java process exits",
        ("placement_look_seconds",),
        "the server stops with exit code 1; the next server can continue the jobs",
    )
    OWNER = DetectionRule(
        "server.parent_watch",
        "the process that reads the server's output, or that `--parent-pid` names, exits",
        (),
        "the server stops as after SIGTERM, and kills its processes after `orphaned_hurry_seconds`",
    )


def log_detection(detector: Detector, process: str) -> None:
    """Logs that a component has detected a failure of a process."""
    _LOGGER.info("%s", format_detection(detector, process))


def format_detection(detector: Detector, process: str) -> str:
    """Returns the log line about a detected failure, which `log_detection` writes."""
    return f"{detector.name} ({detector.value.component}) has detected the loss of {process}"
