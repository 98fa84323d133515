"""What can be wrong with a file of a job: the error that is raised before anybody reads what it holds."""

from __future__ import annotations

from pathlib import Path

from beam_runner_storage.unavailable import (
    NeighbourUnavailable,
    disk_unavailable,
    is_disk_unavailable,
)


class FileError(Exception):
    """A file can't be read, or is not what was written; says which file and why.

    Attributes:
        path: the file's.
        is_permanent: whether the file is missing or damaged, which waiting doesn't mend.
    """

    kind = "file"

    def __init__(self, path: Path, reason: str, *, is_permanent: bool = False) -> None:
        super().__init__(f"the {self.kind} {path} {reason}")
        self.path = path
        self.is_permanent = is_permanent

    @classmethod
    def missing(cls, path: Path) -> FileError | NeighbourUnavailable:
        """Returns the error for a file that is not there.

        If the folder of all jobs is not there either, a file system is not mounted.
        """
        if not (path.parent.is_dir() or path.parent.parent.is_dir()):
            return NeighbourUnavailable(
                f"the folder {path.parent.parent}",
                f"it is not there, and the {cls.kind} {path} is below it; is it mounted?",
            )
        return cls(
            path,
            "is missing: was it deleted, or is the folder not shared by all executors?",
            is_permanent=True,
        )

    @classmethod
    def unreadable(cls, path: Path, error: Exception) -> FileError | NeighbourUnavailable:
        """Returns the error for a file that the operating system doesn't give."""
        if isinstance(error, OSError) and is_disk_unavailable(error):
            return disk_unavailable(error, path.parent)
        return cls(path, f"can't be read: {error}")

    @classmethod
    def damaged(cls, path: Path, what: str) -> FileError:
        """Returns the error for a file that is not what was written."""
        advice = "check the disk that it is on, then run the job again"
        reason = f"is damaged: {what}; what it holds was not used: {advice}"
        return cls(path, reason, is_permanent=True)


class RowsError(FileError):
    """A file of rows can't be read."""

    kind = "data file"


class SegmentError(FileError):
    """A segment can't be read."""

    kind = "state segment"


class SideIndexError(FileError):
    """An index of a side input can't be read."""

    kind = "side input index"
