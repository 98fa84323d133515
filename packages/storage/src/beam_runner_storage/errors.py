"""Base class of the errors for unusable folders, databases and logs."""

from __future__ import annotations

from beam_runner_model.errors import RunnerError


class StorageError(RunnerError):
    """Raised if a folder, a database or a log can't be used; the message has the name of the
    folder, database or log, and the reason.
    """
