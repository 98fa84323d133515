"""Deletion of the journal and files of an ended job, or their retention for a limited time."""

from __future__ import annotations

import logging
import time

from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.failures import JobFailureKind
from beam_runner_storage.journal.errors import JournalError, JournalFenced
from beam_runner_storage.journal.journal import Journal

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.settings import JobSettings

_LOGGER = logging.getLogger(__name__)


class EndedJobRetention:
    """Retention of an ended job's state, which deletes all data that isn't retained. Only one
    thread at a time can use it.
    """

    def __init__(self, ledger: JobLedger, journal: Journal, settings: JobSettings) -> None:
        self._ledger = ledger
        self._journal = journal
        self._settings = settings
        self._is_kept = False

    def retain_state_or_free_space(self, end: FinishJob | FailJob) -> str:
        """Records that the job's state must be retained after the job's end. If the state can't be
        retained, frees disk space. Call this method before the job's end is reported.

        If the server dies before the report, the job counts as running. The next server then
        ignores the mark and resumes the job. If the data is deleted already, the job fails again.

        Returns:
            Message about the retained state; empty if the state isn't retained.
        """
        seconds = self._settings.keep_seconds
        if seconds and self._ledger.plan.is_endless and _has_ended_early(end):
            return self._mark_for_retention(seconds)
        if self._may_lack_disk_space(end) and self._owns_journal():
            # Free disk space before the end of the job is reported, because the disk can be too
            # full for the report.
            self._settings.files.free_disk_space()
        return ""

    def _mark_for_retention(self, seconds: float) -> str:
        """Records that the state must be retained, and returns a message about the retention.
        Returns "" if the mark failed.
        """
        now = time.time()
        try:
            self._journal.mark_job_finished(int(now))
        except JournalFenced:
            raise
        except JournalError as error:
            _LOGGER.warning("Can't retain the state of job %s: %s", self._journal.job_id, error)
            return ""
        self._is_kept = True
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now + seconds))
        return f"the state of this stream is kept until {until} (--keep-failed-streams)"

    def _may_lack_disk_space(self, end: FinishJob | FailJob) -> bool:
        """Returns whether the job failed because the disk of its data or its journal is full or unavailable."""
        if not isinstance(end, FailJob):
            return False
        last = self._ledger.last_failure
        away = last is not None and last.kind is FailureKind.UNAVAILABLE
        return away or end.kind is JobFailureKind.JOURNAL

    def _owns_journal(self) -> bool:
        """Returns whether the journal is readable, and still belongs to this server."""
        try:
            _ = self._journal.exists  # Reading this property checks the epoch.
        except JournalError:
            return False
        return True

    def delete_unretained_data(self) -> None:
        """Deletes all data that isn't retained. Call this method after the job's end is reported."""
        if self._is_kept:
            self._delete_unneeded_files()
        else:
            self._delete_journal_and_files()

    def _delete_unneeded_files(self) -> None:
        """Deletes all files except the journal and the data files that the committed state needs."""
        try:
            self._journal.store_snapshot(self._ledger.encode_snapshot())
        except JournalFenced:
            raise
        except JournalError as error:
            # Continue without a snapshot, because the entries in the journal contain the same data.
            _LOGGER.warning(
                "Can't write the last snapshot of job %s: %s", self._journal.job_id, error
            )
        self._settings.files.delete_leftovers(self._ledger.list_needed_files())

    def _delete_journal_and_files(self) -> None:
        """Deletes the journal, and then all data. The journal is first, because its deletion fails
        if another server owns the job.
        """
        try:
            self._journal.delete_journal()
        except JournalFenced:
            raise
        except JournalError:
            # The journal's disk can be full. Delete the job's data files first, because they use
            # most of the disk.
            self._settings.files.delete_all_files()
            self._journal.delete_journal()
        self._settings.files.delete_all_files()


def _has_ended_early(end: FinishJob | FailJob) -> bool:
    """Returns whether a job ended before its work was complete."""
    return isinstance(end, FailJob) or end.outcome is Outcome.CANCELLED
