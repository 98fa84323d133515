"""What can go wrong with a journal; texts are for the person who runs the server."""

from __future__ import annotations

from beam_runner_storage.errors import StorageError
from beam_runner_storage.unavailable import NeighbourUnavailable


class JournalError(StorageError):
    """The journal cannot be written or read, for the reason in the text.

    After a failed append it is not known whether the entries are there: nothing may be done on the
    strength of them. Either the same entries are appended again, or the job must be recovered before
    it goes on.
    """


class JournalUnavailable(JournalError):
    """The disk of the journal is full or away; the same append may succeed later, and is then done once.

    Attributes:
        away: the disk, and the cause.
    """

    def __init__(self, away: NeighbourUnavailable) -> None:
        super().__init__(str(away))
        self.away = away


class JournalFenced(JournalError):
    """Another server has taken over the folder; this one must not commit anything more."""


class JournalDamaged(JournalError):
    """What is read is not what was written."""
