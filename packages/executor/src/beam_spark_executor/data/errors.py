"""What can be wrong with a file of a job: the error that is raised before anybody reads what it holds."""

from __future__ import annotations

from pathlib import Path


class FileError(Exception):
    """A file can't be read, or is not what was written; says which file and why."""

    kind = "file"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the {self.kind} {path} {reason}")
        self.path = path

    @classmethod
    def missing(cls, path: Path) -> FileError:
        """It is not there."""
        return cls(
            path, "is missing: was it deleted, or is the folder not shared by all executors?"
        )

    @classmethod
    def damaged(cls, path: Path, what: str) -> FileError:
        """It is not what was written."""
        advice = "check the disk that it is on, then run the job again"
        return cls(path, f"is damaged: {what}; what it holds was not used: {advice}")


class RowsError(FileError):
    """A file of rows can't be read."""

    kind = "data file"


class SegmentError(FileError):
    """A segment can't be read."""

    kind = "state segment"


class SideIndexError(FileError):
    """An index of a side input can't be read."""

    kind = "side input index"
