"""What a job that has ended leaves: journal and files, which are removed, or kept for a time."""

from __future__ import annotations

import logging
import time

from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.failures import EndingKind
from beam_runner_storage.journal.errors import JournalError, JournalFenced
from beam_runner_storage.journal.journal import Journal

from beam_runner_runtime.driver.ledger import Ledger
from beam_runner_runtime.driver.settings import JobSettings

_LOGGER = logging.getLogger(__name__)


class JobRemains:
    """For one thread at a time.

    Args:
        ledger: what is committed.
        journal: where it is written down.
        settings: what the job was run with.
    """

    def __init__(self, ledger: Ledger, journal: Journal, settings: JobSettings) -> None:
        self._ledger = ledger
        self._journal = journal
        self._settings = settings
        self._is_kept = False

    def prepare(self, end: FinishJob | FailJob) -> str:
        """Marks what the job leaves as kept, or else makes room for the report; call it before the report.

        A server that dies before the report finds the job as one that has not ended. The mark does
        no harm then, and a job without its data fails again.

        Returns:
            A message about what is kept, empty if nothing is.
        """
        seconds = self._settings.keep_seconds
        if seconds and self._ledger.plan.is_endless and _is_premature(end):
            return self._keep(seconds)
        if self._may_lack_room(end) and self._is_ours():
            # Else the report itself may find no room on the disk.
            self._settings.files.make_room()
        return ""

    def _keep(self, seconds: float) -> str:
        """Marks the state as kept for some seconds, and returns a message, empty if that failed."""
        now = time.time()
        try:
            self._journal.keep(int(now))
        except JournalFenced:
            raise
        except JournalError as error:
            _LOGGER.warning("job %s: its state is not kept: %s", self._journal.job_id, error)
            return ""
        self._is_kept = True
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now + seconds))
        return f"the state of this stream is kept until {until} (--keep-failed-streams)"

    def _may_lack_room(self, end: FinishJob | FailJob) -> bool:
        """Returns whether the job fails since a disk of its data or its journal is full or away."""
        if not isinstance(end, FailJob):
            return False
        last = self._ledger.last_failure
        away = last is not None and last.kind is FailureKind.UNAVAILABLE
        return away or end.kind is EndingKind.JOURNAL

    def _is_ours(self) -> bool:
        """Returns whether the journal can be read, and no other server has taken over its folder."""
        try:
            _ = self._journal.exists  # Reading it checks the epoch.
        except JournalError:
            return False
        return True

    def leave(self) -> None:
        """Removes what is not kept; to be called once the end is reported."""
        if self._is_kept:
            self._tidy()
        else:
            self._remove()

    def _tidy(self) -> None:
        """Keeps the ledger and the files that it needs, and removes the rest."""
        try:
            self._journal.snapshot(self._ledger.snapshot())
        except JournalFenced:
            raise
        except JournalError as error:
            # Then the journal has the entries, which come to the same.
            _LOGGER.warning("job %s: no last snapshot: %s", self._journal.job_id, error)
        self._settings.files.sweep(self._ledger.files())

    def _remove(self) -> None:
        """Removes the journal, which only the server can whose job it is, then all data."""
        try:
            self._journal.delete()
        except JournalFenced:
            raise
        except JournalError:
            # The journal's disk may be full, too, and data are most of what is on it.
            self._settings.files.remove_all()
            self._journal.delete()
        self._settings.files.remove_all()


def _is_premature(end: FinishJob | FailJob) -> bool:
    """Whether a job ended before its work was done."""
    return isinstance(end, FailJob) or end.outcome is Outcome.CANCELLED
