"""Errors of a journal, with messages for the operator of the server."""

from __future__ import annotations

from beam_runner_storage.errors import StorageError
from beam_runner_storage.unavailable import ExternalSystemUnavailable


class JournalError(StorageError):
    """Raised if the journal can't be written or read; the message has the reason.

    After a failed append it is unknown whether the entries are stored, so nothing may depend on
    them. Either append the same entries again, or recover the job before it continues.
    """


class JournalUnavailable(JournalError):
    """Raised if the journal's disk is full or unavailable.

    A retry of the same append may succeed later, and stores the entries once.

    Attributes:
        away: the error with the name of the disk, and the cause.
    """

    def __init__(self, away: ExternalSystemUnavailable) -> None:
        super().__init__(str(away))
        self.away = away


class JournalFenced(JournalError):
    """Raised if another server has taken over the folder, so that this server must not commit anything."""


class JournalDamaged(JournalError):
    """Raised if the stored data of a journal differs from the written data."""
