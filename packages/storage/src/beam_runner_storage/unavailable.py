"""Errors for unreachable external systems that the server or a bundle depends on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ExternalSystemUnavailable(Exception):
    """Raised if an external system is unavailable now and may work later.

    Neighbours are stores, disks, Spark, brokers and sinks. A bundle that ends with this error is
    not at fault: the attempt doesn't count, and the bundle runs again after a pause. Raise it from
    the original error. Don't raise it for missing or damaged data, because waiting doesn't help.

    Attributes:
        neighbour: the name and location of the external system, such as "the data store at
            s3://bucket/data" or "the disk of /var/lib/beam".
        reason: the cause, as reported by the external system, its client or the operating system.
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
        # Errors of network file systems:
        *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.ECONNRESET, errno.ECONNABORTED),
    }
)
"""Error numbers of a full or unavailable file system, for which a retry may succeed later."""


def is_disk_unavailable(error: OSError) -> bool:
    """Returns whether an error of the operating system reports a full or unavailable file system."""
    return error.errno in _DISK_ERRORS


def build_disk_error(error: OSError, folder: Path) -> ExternalSystemUnavailable:
    """Returns the error for a full or unavailable file system.

    Args:
        error: the error of the operating system.
        folder: a folder of the file system, for the message if `error` doesn't name a file.
    """
    place = Path(error.filename).parent if isinstance(error.filename, str) else folder
    return ExternalSystemUnavailable(f"the disk of {place}", error.strerror or str(error))


@contextmanager
def convert_disk_errors(folder: Path) -> Iterator[None]:
    """Runs the `with` block, and converts errors of a full or unavailable file system.

    Args:
        folder: a folder of the file system, for the message if an error doesn't name a file.

    Raises:
        ExternalSystemUnavailable: The file system is full or unavailable.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_unavailable(error):
            raise
        raise build_disk_error(error, folder) from error
