"""Requests that other threads send to a running job: for savepoints, for lists of quarantined
(failing) elements, and for replays of these elements.
"""

from __future__ import annotations

from beam_runner_model.jobs import Importance

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.job.job_events import (
    Item,
    QuarantineRequested,
    ReplayRequested,
    SavepointRequested,
)
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ports import RunReporter
from beam_runner_driver.quarantine.replay import plan_replay
from beam_runner_driver.updates.savepoint_files import capture_savepoint_contents


class JobRequests:
    """Handler of one job's requests for savepoints, for lists of quarantined (failing) elements,
    and for replays of these elements. Only the job's thread can call the methods.

    Args:
        reporter: receiver of messages about replays.
    """

    def __init__(
        self,
        ledger: JobLedger,
        coordinator: JobCoordinator,
        files: JobFolder,
        reporter: RunReporter,
    ) -> None:
        self._ledger = ledger
        self._coordinator = coordinator
        self._files = files
        self._reporter = reporter

    def handle_event(self, item: Item) -> None:
        """Answers a request immediately, or as soon as the scheduler is in the server."""
        match item:
            case SavepointRequested(answer):
                answer.set_result(capture_savepoint_contents(self._ledger, self._files))
            case QuarantineRequested(found):
                found.set_result(dict(self._ledger.quarantine.files))
            case ReplayRequested():
                self._coordinator.run_with_scheduler(lambda: self._replay_units(item))

    def _replay_units(self, request: ReplayRequested) -> None:
        if self._ledger.end is not None:
            return
        try:
            entry, report = plan_replay(self._ledger, request.units, expired=request.expired)
        except Exception as error:
            # The quarantine files are user data, and damaged files must not end the job.
            request.answer.set_exception(error)
            return
        if entry is not None:
            self._coordinator.commit_entry(entry)
            text = f"replayed {report.replayed} quarantined elements, {report.late} of them late"
            self._reporter.report_message(Importance.BASIC, text)
        request.answer.set_result(report)
