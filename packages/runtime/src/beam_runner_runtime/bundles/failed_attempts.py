"""Records of failed bundle attempts; the type of the error decides whether user code or the runner is at fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beam_runner_data.rows.errors import FileError
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_storage.stores.ports import MissingFileError
from beam_runner_storage.unavailable import (
    NeighbourUnavailable,
    build_disk_error,
    is_disk_unavailable,
)
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

    An error of user code arrives as a `BundleError`. So all other errors are errors of the runner,
    and an `OSError` concerns a file of the runner.

    Args:
        attempt: the attempt.
        error: the error that ended the attempt.
        folder: folder of the job's files, named in the record if the error doesn't name a file.
        hides_elements: whether the record must not show the element.
        is_loopback: whether the program that submitted the job runs its user code; no component
            restarts that program after its exit.
    """
    if isinstance(error, BundleError):
        element = "" if hides_elements else error.element
        return BundleFailure(
            attempt, UserFailure(error.transform, error.summary, error.trace, element)
        )
    away = find_unavailable_neighbour(error, folder)
    if away is not None:
        return BundleFailure(attempt, None, str(away), FailureKind.UNAVAILABLE, away.neighbour)
    for cause in _iterate_causes(error):
        gone = is_loopback and isinstance(cause, PoolUnreachable)
        if gone or isinstance(cause, MissingFileError) or _is_permanent(cause):
            return BundleFailure(attempt, None, _describe_error(cause), FailureKind.PERMANENT)
    return BundleFailure(attempt, None, _describe_error(error))


def find_unavailable_neighbour(error: BaseException, folder: Path) -> NeighbourUnavailable | None:
    """Returns the unavailable neighbour that caused an error, or None for another cause.

    Args:
        error: an error of the runner, not of user code.
        folder: folder of the job's files, named if the error doesn't name a file.
    """
    for cause in _iterate_causes(error):
        if isinstance(cause, MissingFileError) or _is_permanent(cause):
            return None
        if isinstance(cause, NeighbourUnavailable):
            return cause
        if isinstance(cause, OSError) and is_disk_unavailable(cause):
            return build_disk_error(cause, folder)
    return None


def _is_permanent(error: BaseException) -> bool:
    return isinstance(error, FileError) and error.is_permanent


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and its chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
