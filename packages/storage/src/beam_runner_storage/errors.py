"""Base class of errors of unusable files and logs."""

from __future__ import annotations

from beam_runner_model.errors import RunnerError


class StorageError(RunnerError):
    """Raised if a folder, a database or a log can't be used; the text names it, and says why."""
