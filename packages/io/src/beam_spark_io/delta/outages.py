"""Errors of `deltalake` and of its storage that can end without a change of the job."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

from beam_spark_io.tables.outages import convert_outages

_STORAGE_ERROR = re.compile(r"Generic (?!DeltaTable )\w+ error|Error performing [A-Z]+ ")
"""Text of an error of the storage, such as "Generic S3 error"."""
_MISSING_FILE = re.compile(r"Object at location \S+ not found")


def convert_delta_outages(url: str, outage: type[Exception]) -> AbstractContextManager[None]:
    """Returns a context that converts outages of a table's storage, and commits that another writer
    was faster with.

    Args:
        url: address of the table.
        outage: type of the converted errors.
    """
    return convert_outages(is_unavailable, url, outage)


def is_unavailable(error: Exception) -> bool:
    """Returns whether a later attempt can succeed. The attempt opens the table again, so a commit of
    an earlier attempt is found.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    if isinstance(error, OSError):
        return not isinstance(error, FileNotFoundError | PermissionError)
    if isinstance(error, CommitFailedError):
        return True
    # Commits and merges wrap errors of the storage in the library's most general error.
    text = str(error)
    is_of_storage = type(error) is DeltaError and _STORAGE_ERROR.search(text) is not None
    return is_of_storage and _MISSING_FILE.search(text) is None
