"""Errors of `pyiceberg`, its catalogs and its storage that can end without a change of the job."""

from __future__ import annotations

from contextlib import AbstractContextManager

from beam_spark_io.tables.outages import convert_outages

_AWAY = frozenset(
    {
        *("ServiceUnavailableError", "ServerError", "TooManyRequestsError"),
        *("AuthorizationExpiredError", "CommitFailedException", "CommitStateUnknownException"),
        "WaitingForLockException",
        # Errors of botocore and Thrift, the clients of Glue, DynamoDB and Hive:
        *("EndpointConnectionError", "ConnectTimeoutError", "HTTPClientError"),
        "TTransportException",
    }
)
"""Names of errors for which a retry with the current table can succeed."""


def convert_iceberg_outages(name: str, outage: type[Exception]) -> AbstractContextManager[None]:
    """Returns a context that converts outages of a table's catalog and storage.

    Args:
        name: name of the table.
        outage: type of the converted errors.
    """
    return convert_outages(is_unavailable, name, outage)


def is_unavailable(error: Exception) -> bool:
    """Returns whether an error of the catalog or the storage can end without a change of the job."""
    if isinstance(error, OSError):
        # The HTTP client reports an invalid URL as an OSError that is also a ValueError.
        return not isinstance(error, FileNotFoundError | PermissionError | ValueError)
    kinds = type(error).__mro__
    names = {kind.__name__ for kind in kinds}
    of_database = any(kind.__module__.startswith("sqlalchemy.") for kind in kinds)
    return not names.isdisjoint(_AWAY) or (of_database and "OperationalError" in names)
