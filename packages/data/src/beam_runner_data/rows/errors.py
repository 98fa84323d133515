"""Errors of a job's data files: missing, unreadable or damaged."""

from __future__ import annotations

from pathlib import Path

from beam_runner_storage.unavailable import (
    ExternalSystemUnavailable,
    build_disk_error,
    is_disk_unavailable,
)


class FileError(Exception):
    """Raised if a file can't be read, or differs from the written data; the message names the file and
    the reason.

    Attributes:
        path: the path of the file.
        is_permanent: whether the file is missing or damaged, so that a retry doesn't help.
    """

    kind = "file"

    def __init__(self, path: Path, reason: str, *, is_permanent: bool = False) -> None:
        super().__init__(f"the {self.kind} {path} {reason}")
        self.path = path
        self.is_permanent = is_permanent

    @classmethod
    def create_missing_error(cls, path: Path) -> FileError | ExternalSystemUnavailable:
        """Returns the error for a missing file.

        If the folder of all jobs is also missing, the cause is an unmounted file system.
        """
        if not (path.parent.is_dir() or path.parent.parent.is_dir()):
            return ExternalSystemUnavailable(
                f"the folder {path.parent.parent}",
                f"the folder is missing, so the {cls.kind} {path} is unreachable; is it mounted?",
            )
        return cls(
            path,
            "is missing: check that no program has deleted it, and that all executors"
            " share its folder",
            is_permanent=True,
        )

    @classmethod
    def create_unreadable_error(
        cls, path: Path, error: Exception
    ) -> FileError | ExternalSystemUnavailable:
        """Returns the error for a file that the operating system can't read."""
        if isinstance(error, OSError) and is_disk_unavailable(error):
            return build_disk_error(error, path.parent)
        return cls(path, f"can't be read: {error}")

    @classmethod
    def create_damage_error(cls, path: Path, what: str) -> FileError:
        """Returns the error for a file that differs from the written data."""
        advice = "check the disk of the file, then run the job again"
        reason = f"is damaged: {what}; the runner ignored its content: {advice}"
        return cls(path, reason, is_permanent=True)


class RowsError(FileError):
    """Raised if a file of rows can't be read."""

    kind = "data file"


class SegmentError(FileError):
    """Raised if a segment can't be read."""

    kind = "state segment"


class SideIndexError(FileError):
    """Raised if an index of a side input can't be read."""

    kind = "side input index"
