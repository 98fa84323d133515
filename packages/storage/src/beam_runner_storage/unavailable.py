"""Errors for systems that the server or a bundle depends on and that can't be reached."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NeighbourUnavailable(Exception):
    """A neighbour of the runner can't do its part now, and may do it later without any change.

    Neighbours are stores, disks, Spark, brokers and sinks. A bundle that ends with this error has
    no fault of its own: the attempt doesn't count, and the bundle runs again after a pause.
    Raise it from the original error. Don't raise it for data that is missing or damaged, because
    waiting doesn't mend these.

    Attributes:
        neighbour: the neighbour and its place, such as "the data store at s3://bucket/data" or
            "the disk of /var/lib/beam".
        reason: the cause as the neighbour, its client or the operating system reports it.
    """

    def __init__(self, neighbour: str, reason: str) -> None:
        super().__init__(neighbour, reason)
        self.neighbour = neighbour
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.neighbour} is unavailable: {self.reason}"


_DISK_ERRORS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS),
        # File systems of other machines:
        *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.ECONNRESET, errno.ECONNABORTED),
    }
)
"""Error numbers of a file system that is full or away: the same call may succeed later."""


def is_disk_unavailable(error: OSError) -> bool:
    """Whether an error of the operating system says that a file system is full or away."""
    return error.errno in _DISK_ERRORS


def disk_unavailable(error: OSError, folder: Path) -> NeighbourUnavailable:
    """Returns the error for a file system that is full or away.

    Args:
        error: the error of the operating system.
        folder: a folder of the file system, named if `error` doesn't name a file.
    """
    place = Path(error.filename).parent if isinstance(error.filename, str) else folder
    return NeighbourUnavailable(f"the disk of {place}", error.strerror or str(error))


@contextmanager
def disk_of(folder: Path) -> Iterator[None]:
    """Raises errors within that say that a file system is full or away as `NeighbourUnavailable`.

    Args:
        folder: a folder of the file system, named if an error doesn't name a file.

    Raises:
        NeighbourUnavailable: the file system is full or away.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_unavailable(error):
            raise
        raise disk_unavailable(error, folder) from error
