"""Errors of staged files that the server can't read, and their form in the channel."""

from __future__ import annotations

import json
from pathlib import Path

from beam_runner_data.rows.errors import FileError
from beam_runner_storage.unavailable import ExternalSystemUnavailable


class StagedFileError(FileError):
    """Raised if a staged file can't be read."""

    kind = "staged file"

    @classmethod
    def create_missing_error(cls, path: Path) -> FileError | ExternalSystemUnavailable:
        """Returns the error for a missing file; if the folder of all staged files is also missing,
        the cause can be an unmounted file system.
        """
        if not (path.parent.is_dir() or path.parent.parent.is_dir()):
            return super().create_missing_error(path)
        reason = (
            "is missing, so no new worker process can run the job: restore the file, or submit"
            " the job again"
        )
        return cls(path, reason, is_permanent=True)


def encode_read_error(error: OSError) -> str:
    """Returns the text from which `decode_read_error` creates the error of the worker process."""
    path = Path(str(error.filename))
    if isinstance(error, FileNotFoundError):
        found = StagedFileError.create_missing_error(path)
    else:
        found = StagedFileError.create_unreadable_error(path, error)
    if isinstance(found, ExternalSystemUnavailable):
        return json.dumps({"neighbour": found.neighbour, "reason": found.reason})
    reason = str(found).removeprefix(f"the {found.kind} {path} ")
    return json.dumps({"path": str(path), "reason": reason, "permanent": found.is_permanent})


def decode_read_error(text: str) -> FileError | ExternalSystemUnavailable:
    """Returns the error of a staged file that the server couldn't read."""
    told = json.loads(text)
    if "neighbour" in told:
        return ExternalSystemUnavailable(told["neighbour"], told["reason"])
    return StagedFileError(Path(told["path"]), told["reason"], is_permanent=told["permanent"])
