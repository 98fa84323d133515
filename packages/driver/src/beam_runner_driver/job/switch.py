"""Switch from a running job to the job that replaces it.

The switch pauses the sources of the running job until all open bundles are committed, or until a
time limit. Then the new job takes over the state. If the new job is refused before the running job
closes its lanes, the sources resume, and the running job continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from beam_runner_engine.scheduler.refusals import TransferRefused
from beam_runner_model.updates import UpdateReport
from beam_runner_storage.journal.errors import JournalError

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.job.job_events import (
    CancelRequested,
    DrainRequested,
    Item,
    SuspendRequested,
    UpdateRequested,
)
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.retrying_journal import RetryingJournal
from beam_runner_driver.updates.job_update import JobUpdate, UpdateOutcome, UpdateResult
from beam_runner_driver.updates.succession import (
    compare_with_ledger,
    list_pausable_stages,
    make_next_ledger,
)

_INTERRUPTIONS: Mapping[type, str] = {
    CancelRequested: "a client cancelled the job",
    DrainRequested: "a client drains the job",
    SuspendRequested: "the server stops",
}
_LOGGER = logging.getLogger(__name__)


class JobSwitch:
    """Switch from one running job to its replacement. Only the job's thread can call the methods.

    Args:
        ledger: durable record of the running job's committed state.
    """

    def __init__(
        self, ledger: JobLedger, coordinator: JobCoordinator, journal: RetryingJournal
    ) -> None:
        self._ledger = ledger
        self._coordinator = coordinator
        self._journal = journal
        self._update: JobUpdate | None = None
        self._report = UpdateReport()
        self._until = 0.0
        self._next: JobLedger | None = None
        self._is_committed = False

    @property
    def is_decided(self) -> bool:
        """Whether the new job will replace the running job. If so, the running job must close its
        lanes (worker processes).
        """
        return self._next is not None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit for pausing the sources; None if no update is in progress."""
        return None if self._update is None else max(0.0, self._until - time.monotonic())

    def handle_event(self, item: Item) -> None:
        """Begins an update if an event requests it. Gives up the update if an event ends or
        suspends the running job.
        """
        if isinstance(item, UpdateRequested):
            self._begin_update_if_possible(item.update)
        elif (reason := _INTERRUPTIONS.get(type(item))) is not None:
            self._give_up_update(reason)

    def _begin_update_if_possible(self, update: JobUpdate) -> None:
        if self._update is not None:
            reason = f"the job {self._update.job_id} already replaces it"
            update.answer.set_result(UpdateResult(UpdateOutcome.REFUSED, reason=reason))
            return
        self._update, self._until = update, time.monotonic() + update.quiet_seconds
        try:
            self._begin_update(update)
        except Exception as error:
            self._handle_update_error(error)

    def _begin_update(self, update: JobUpdate) -> None:
        """Compares the jobs, and pauses the sources of the running job unless the update is refused."""
        self._report = compare_with_ledger(self._ledger, update.job).report
        update.on_report(self._report)
        if update.is_check:
            self._end_update(UpdateOutcome.CHECKED)
        elif self._report.is_refused_permanently:
            self._end_update(UpdateOutcome.REFUSED)
        else:
            self._coordinator.pause_stages(list_pausable_stages(self._ledger.plan))

    def advance(self) -> None:
        """Accepts or refuses the update as soon as no bundle is open or the time limit is over."""
        if self._update is None or self._next is not None:
            return
        if self._update.withdrawn.is_set():
            self._give_up_update("the client cancelled it")
        elif self._coordinator.is_idle or time.monotonic() >= self._until:
            try:
                self._decide_on_update(self._update)
            except Exception as error:
                self._handle_update_error(error)

    def _decide_on_update(self, update: JobUpdate) -> None:
        comparison = compare_with_ledger(self._ledger, update.job)
        if comparison.report != self._report:
            self._report = comparison.report
            update.on_report(self._report)
        if self._report.is_refused:
            self._end_update(UpdateOutcome.REFUSED)
            return
        try:
            self._next = make_next_ledger(self._ledger, update.job, comparison.correspondence)
        except TransferRefused as refused:
            self._end_update(UpdateOutcome.REFUSED, str(refused))

    def _give_up_update(self, reason: str) -> None:
        if self._update is not None and self._next is None:
            self._end_update(UpdateOutcome.INTERRUPTED, reason)

    def commit(self) -> bool:
        """Replaces the running job with the new job, in one transaction. All lanes must have ended.

        Returns:
            Whether the new job has replaced the running job. False if the outcome is unknown: the
            next server determines it.
        """
        update, following = self._update, self._next
        assert update is not None
        assert following is not None
        try:
            self._journal.replace_by_successor(update.journal, following.encode_snapshot())
        except JournalError as error:
            _LOGGER.warning(
                "Can't record that job %s replaces a job; the next server continues: %s",
                update.job_id,
                error,
            )
            return False
        self._is_committed = True
        try:
            update.on_replaced(self._report)
        except Exception:
            # The replacement is already committed, so a failure here only loses the message about
            # it.
            _LOGGER.exception("Can't report that job %s replaced a job", update.job_id)
        return True

    def close(self) -> None:
        """Reports the outcome of an update that is in progress, after the running job has ended."""
        if self._update is None:
            return
        if self._is_committed:
            answer = UpdateResult(UpdateOutcome.REPLACED, self._report, ledger=self._next)
        elif self._next is not None:
            answer = UpdateResult(UpdateOutcome.UNKNOWN, self._report)
        else:
            answer = UpdateResult(UpdateOutcome.INTERRUPTED, self._report, "the job ended")
        self._update.answer.set_result(answer)

    def _handle_update_error(self, error: Exception) -> None:
        _LOGGER.exception("the update of a job failed, and the job continues")
        self._end_update(
            UpdateOutcome.REFUSED, f"the server failed: {type(error).__name__}: {error}"
        )

    def _end_update(self, outcome: UpdateOutcome, reason: str = "") -> None:
        """Resumes the sources, and reports the outcome of the update."""
        update, self._update = self._update, None
        assert update is not None
        self._coordinator.pause_stages(())
        update.answer.set_result(UpdateResult(outcome, self._report, reason))
