"""Periodic check that a worker process runs each open bundle. Bundles that no process runs are restarted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from beam_runner_model.jobs import Importance
from beam_runner_model.observation import ThreadStack
from beam_runner_runtime.channel import stacks
from beam_runner_runtime.channel.attempts import LostProcess
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.limits import LIMITS

from beam_runner_driver.coordination.coherence import find_lost_bundles
from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.lanes import watchdog
from beam_runner_driver.lanes.watchdog import ConditionTimer
from beam_runner_driver.ports import RunReporter

_LOGGER = logging.getLogger(__name__)


class JobWatchdog:
    """Watchdog that detects if a job makes no progress. Only the job's thread can use this object.

    Args:
        job_id: id of the job.
        reporter: receiver of messages about bundles that no process runs.
        worker_stacks: function that requests the stacks of the worker processes.
    """

    def __init__(
        self,
        job_id: str,
        reporter: RunReporter,
        worker_stacks: Callable[[], Iterable[ThreadStack]],
    ) -> None:
        self._job_id = job_id
        self._reporter = reporter
        self._worker_stacks = worker_stacks
        self._looked = 0.0
        self._busy = 0.0
        self._loop_is_lost = ConditionTimer()
        self._bundles_are_lost = ConditionTimer()

    def run_check_if_due(self, coordinator: JobCoordinator, taken: float) -> None:
        """Runs the check if it is due. Restarts bundles that no process runs.

        The job's thread can block for minutes, for example during an outage of the journal. During
        this time, the thread handles no messages, so the check doesn't count this time as a missing
        report.

        Args:
            taken: time (``time.monotonic``) up to which all messages are handled.
        """
        now, listened = taken, taken - self._busy
        self._busy += time.monotonic() - taken
        if now < self._looked + LIMITS.watchdog_look_seconds:
            return
        self._looked = now
        limit = LIMITS.watchdog_seconds
        for link in watchdog.find_abandoned_work(
            coordinator.lanes.list_assignments(), coordinator.moved, now
        ):
            where = f"Python worker {link.hello.pid} on {link.hello.host}"
            what = f"{where} got a bundle, but {link.doing.value}"
            self._report_defect(what, "the server replaces the process and reruns the bundle")
            log_detection(Detector.WATCHDOG, where)
            loss = coordinator.lanes.abandon_process(link)
            process = LostProcess(link.hello.host, link.hello.pid)
            coordinator.handle_loss(loss, f"{what} for more than {limit:g} s", process)
        if self._loop_is_lost.measure_seconds(is_so=coordinator.is_loop_lost, now=listened) > limit:
            self._report_defect(
                "no process runs the loop of this job", "the server reruns its bundles"
            )
            coordinator.reclaim_scheduler("no process ran it")
        # Search for lost bundles only after half of the time limit without progress, because the
        # search takes time linear in the number of open bundles.
        lost = find_lost_bundles(coordinator) if now - coordinator.moved > limit / 2 else []
        if self._bundles_are_lost.measure_seconds(is_so=bool(lost), now=listened) > limit:
            self._report_defect(
                f"open bundles without a process: {len(lost)}", "the server runs them now"
            )
            coordinator.start_bundles(lost)

    def _report_defect(self, what: str, then: str) -> None:
        text = (
            f"{what} for more than {LIMITS.watchdog_seconds:g} s: {then}. This is a"
            " defect of the runner; the server log contains the stacks of all threads"
        )
        self._reporter.report_message(Importance.WARNING, text)
        found = (*stacks.list_thread_stacks(), *self._worker_stacks())
        _LOGGER.error(
            "job %s: %s. Stacks of all threads:\n%s",
            self._job_id,
            text,
            stacks.format_stacks(found),
        )
