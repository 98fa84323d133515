"""The base of errors of files and logs that can't be used."""

from __future__ import annotations

from beam_runner_model.errors import RunnerError


class StorageError(RunnerError):
    """A folder, a database or a log can't be used; the text says which, and why."""
