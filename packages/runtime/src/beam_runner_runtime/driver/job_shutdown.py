"""End of a job: waits for the end of its lanes and sections, then ends its processes."""

from __future__ import annotations

import logging
import time

from beam_runner_runtime.channel.messages import LaneOpened
from beam_runner_runtime.driver.coordinator import JobCoordinator
from beam_runner_runtime.driver.inbox import EventQueue
from beam_runner_runtime.driver.job_events import LaneEnded, ProcessMessage, SectionEnded
from beam_runner_runtime.driver.ports import JobPlacement
from beam_runner_runtime.driver.processes import JobProcesses
from beam_runner_runtime.shutdown.causes import ShutdownEvent
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.life import StateMachine
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import JobPhase

_LOGGER = logging.getLogger(__name__)


def shut_down_job(
    coordinator: JobCoordinator,
    placement: JobPlacement,
    inbox: EventQueue,
    seconds: float,
    *,
    cancel: bool,
    grace: float = 0.0,
) -> None:
    """Waits until the placement has ended all lanes and sections of a job.

    A Spark job that starts during the cancellation of its job group isn't in that group yet.
    Therefore, the cancellation repeats until no Spark job is left.

    Args:
        coordinator: coordinator of the job, with closed lanes.
        placement: placement of the job.
        inbox: events of the job.
        seconds: maximum wait in seconds.
        cancel: whether to cancel all lanes immediately. Otherwise only lanes that don't end by
            themselves are canceled.
        grace: seconds before the first cancellation.
    """
    lanes, sections = coordinator.lanes, coordinator.sections
    began = time.monotonic()
    again = began + grace
    while (lanes.alive or sections.has_sections) and time.monotonic() < began + seconds:
        # Also cancel lanes that are too slow to close: a lane that waits for a slot has not opened,
        # and therefore can't be closed.
        stuck = lanes.has_only_busy_lanes or time.monotonic() > began + LIMITS.lane_close_seconds
        if (cancel or stuck or sections.has_sections) and time.monotonic() >= again:
            again = time.monotonic() + LIMITS.job_look_seconds
            try:
                placement.cancel()
            except Exception as failure:
                # Give up the cancellation if the placement itself is broken, so that the job's end
                # is reported anyway.
                why = str(failure).partition("\n")[0]
                _LOGGER.warning("Can't cancel the lanes of a job: %s", why)
                return
        match inbox.wait_for_event(LIMITS.job_look_seconds):
            case LaneEnded(number, _):
                lanes.handle_lane_end(number)
            case SectionEnded(end):
                sections.handle_end(end)
            case ProcessMessage(link, LaneOpened(lane)):
                lanes.handle_opened_lane(lane, link)
            case _:
                pass


def end_processes(processes: JobProcesses, life: StateMachine[JobPhase]) -> bool:
    """Ends all processes of a job, with an orderly teardown if required. Returns whether all processes exited."""
    if life.state is JobPhase.TEARING_DOWN:
        # Tear down in order even if the job failed, because callbacks of committed bundles still
        # have to run.
        gone = processes.end_processes(abort=False, seconds=LIMITS.teardown_seconds)
        life.apply_cause(ShutdownEvent.ALL_GONE if gone else ShutdownEvent.LATE)
        if gone:
            return True
        log_detection(Detector.TEARDOWN, f"processes of {life.name}")
    gone = processes.end_processes(abort=True, seconds=LIMITS.abort_seconds)
    life.apply_cause(ShutdownEvent.ALL_GONE if gone else ShutdownEvent.LATE)
    return gone
