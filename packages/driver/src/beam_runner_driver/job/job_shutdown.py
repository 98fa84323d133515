"""End of a job: waits until the job's lanes (worker slots) and sections (Spark jobs that run several
stages) have ended, and then ends the job's worker processes.
"""

from __future__ import annotations

import logging
import time

from beam_runner_runtime.channel.messages import AbandonBundle, ExitProcess, LaneOpened
from beam_runner_runtime.shutdown.causes import ShutdownEvent
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.life import StateMachine
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import JobPhase

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.job.inbox import EventQueue
from beam_runner_driver.job.job_events import LaneEnded, ProcessMessage, SectionEnded
from beam_runner_driver.lanes.processes import JobProcesses
from beam_runner_driver.ports import JobPlacement

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
    """Waits until all lanes (worker slots) and sections (Spark jobs that run several stages) of a
    job have ended. Cancels their Spark jobs if necessary.

    A Spark job that starts during the cancellation of its job group isn't in that group yet.
    Therefore, the cancellation repeats until no Spark job is left.

    Args:
        coordinator: coordinator of the job, which has already closed its idle lanes.
        seconds: maximum wait in seconds.
        cancel: whether to cancel all lanes immediately. Otherwise only lanes that don't end by
            themselves are canceled.
        grace: seconds before the first cancellation.
    """
    lanes, sections = coordinator.lanes, coordinator.sections
    began = time.monotonic()
    again = began + grace
    while (lanes.alive or sections.has_sections) and time.monotonic() < began + seconds:
        # Also cancel lanes that don't end in time. For example, a lane that still waits for a slot
        # isn't open, so it can't be closed.
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


def end_lanes_and_sections(
    coordinator: JobCoordinator,
    placement: JobPlacement,
    inbox: EventQueue,
    processes: JobProcesses,
    *,
    in_order: bool,
    grace: float,
) -> None:
    """Ends all lanes (worker processes) and sections (Spark jobs) of a job, and asks the processes
    that still run bundles to exit.

    Args:
        in_order: whether processes tear down their DoFns and then exit by themselves.
        grace: seconds before the first cancellation.
    """
    busy = coordinator.lanes.close_lanes()
    in_sections = processes.list_links() if coordinator.sections.has_sections else ()
    for link in {*busy, *in_sections}:
        link.send(AbandonBundle())
    if in_order:
        processes.request_tear_down()
    if placement.is_alive:
        shut_down_job(
            coordinator,
            placement,
            inbox,
            LIMITS.abort_seconds,
            cancel=not in_order,
            grace=grace,
        )
    # Wait for the lanes (worker processes) first: Spark retries the task of a lane if the worker
    # process exits before the lane ends.
    for link in busy:
        link.send(ExitProcess())


def end_processes(processes: JobProcesses, life: StateMachine[JobPhase]) -> bool:
    """Ends all worker processes of a job, after the teardown of their DoFns if required. Returns whether all exited."""
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
