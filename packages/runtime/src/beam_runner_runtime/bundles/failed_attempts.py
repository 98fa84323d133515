"""Records of failed attempts at bundles. The type of the error decides whether the record blames
user code or the runner.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beam_runner_data.rows.errors import FileError
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_storage.stores.ports import MissingFileError
from beam_runner_storage.unavailable import (
    ExternalSystemUnavailable,
    build_disk_error,
    is_disk_unavailable,
)
from beam_runner_urns.errors import SINK_CONFLICT
from beam_runner_worker.errors import BundleError, PoolUnreachable

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, UserFailure


def describe_failed_attempt(
    attempt: Attempt,
    error: Exception,
    folder: Path,
    *,
    hides_elements: bool = False,
    is_loopback: bool = False,
) -> BundleFailure:
    """Returns the record of an attempt that ended with an error.

    The harness wraps errors of user code in a `BundleError`. All other errors are errors of the
    runner, and an `OSError` concerns a file of the runner.

    Args:
        attempt: the attempt.
        error: the error that ended the attempt.
        folder: folder of the job's files, named in the record if the error doesn't name a file.
        hides_elements: whether the record must not show the element.
        is_loopback: whether the client's program runs the user code (LOOPBACK). The runner can't
            restart this program after its exit.
    """
    if isinstance(error, BundleError):
        element = "" if hides_elements else error.element
        failure = UserFailure(error.transform, error.summary, error.trace, element)
        is_conflict = error.summary.startswith(f"{SINK_CONFLICT}: ")
        kind = FailureKind.PERMANENT if is_conflict else FailureKind.USER
        return BundleFailure(attempt, failure, kind=kind)
    away = find_unavailable_service(error, folder)
    if away is not None:
        return BundleFailure(attempt, None, str(away), FailureKind.UNAVAILABLE, away.neighbour)
    for cause in _iterate_causes(error):
        gone = is_loopback and isinstance(cause, PoolUnreachable)
        if gone or isinstance(cause, MissingFileError) or _is_permanent_error(cause):
            return BundleFailure(attempt, None, _describe_error(cause), FailureKind.PERMANENT)
    return BundleFailure(attempt, None, _describe_error(error))


def find_unavailable_service(
    error: BaseException, folder: Path
) -> ExternalSystemUnavailable | None:
    """Returns the external system (store, disk or service) whose outage caused an error, or None
    for another cause.

    Args:
        error: an error of the runner, not of user code.
        folder: folder of the job's files, named if the error doesn't name a file.
    """
    for cause in _iterate_causes(error):
        if isinstance(cause, MissingFileError) or _is_permanent_error(cause):
            return None
        if isinstance(cause, ExternalSystemUnavailable):
            return cause
        if isinstance(cause, OSError) and is_disk_unavailable(cause):
            return build_disk_error(cause, folder)
    return None


def _is_permanent_error(error: BaseException) -> bool:
    return isinstance(error, FileError) and error.is_permanent


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and all its direct and indirect causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
