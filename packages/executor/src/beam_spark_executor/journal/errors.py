"""What can go wrong with a journal; texts are for the person who runs the server."""

from __future__ import annotations


class JournalError(Exception):
    """The journal cannot be written or read, for the reason in the text.

    After a failed append it is not known whether the entries are there: nothing may be done on the
    strength of them, and the job must be recovered before it goes on.
    """


class JournalFenced(JournalError):
    """Another server has taken over the folder; this one must not commit anything more."""


class JournalDamaged(JournalError):
    """What is read is not what was written."""
