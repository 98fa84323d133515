"""Tests that the record of a failed attempt classifies the failure by the type of the error."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from beam_runner_data.rows.errors import FileError, RowsError
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_data.state.segments import open_segment
from beam_runner_engine.scheduler.events import BundleFailed as FailedEvent
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_storage.stores.ports import MissingFileError, StoreError
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from beam_runner_urns.errors import SINK_CONFLICT
from beam_runner_worker.errors import BundleError, HarnessError, PoolUnreachable

from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, FailedStep, UserFailure

JOB = Path("/state/jobs/job")
ATTEMPT = Attempt(1, 2)


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def kind_of(error: Exception) -> FailureKind:
    return describe_failed_attempt(ATTEMPT, error, JOB).kind


@pytest.mark.parametrize(
    ("hides", "text"),
    [
        (False, "ValueError: no [while running 'T']\nThe element: ('a', 1)\ntrace"),
        (True, "ValueError: no [while running 'T']\ntrace"),
    ],
)
def test_failure_record_of_user_code_shows_element_unless_hidden(hides: bool, text: str) -> None:
    error = BundleError("T", "ValueError: no", "trace", "('a', 1)")
    broken = describe_failed_attempt(ATTEMPT, error, JOB, hides_elements=hides)
    assert broken.failure is not None
    assert broken.failure.text == text
    element = "" if hides else "('a', 1)"
    detail = FailedStep("T", "ValueError: no", element)
    assert broken.to_event() == FailedEvent(1, 2, text, FailureKind.USER, "", detail)


def test_conflict_of_a_sink_is_permanent_and_names_its_step() -> None:
    error = BundleError("Sink/Commit", f"{SINK_CONFLICT}: commit 3 has other elements", "trace")
    broken = describe_failed_attempt(ATTEMPT, error, JOB)
    assert broken.kind is FailureKind.PERMANENT
    assert broken.failure is not None
    assert broken.failure.transform == "Sink/Commit"
    assert kind_of(BundleError("T", f"ValueError: {SINK_CONFLICT}: no", "")) is FailureKind.USER


def test_failure_record_of_unavailable_service_names_service() -> None:
    error = ExternalSystemUnavailable("the data store at s3://b", "timed out")
    broken = describe_failed_attempt(ATTEMPT, error, JOB)
    text = "the data store at s3://b is unavailable: timed out"
    unavailable = FailureKind.UNAVAILABLE
    assert broken == BundleFailure(ATTEMPT, None, text, unavailable, "the data store at s3://b")
    assert broken.to_event() == FailedEvent(1, 2, text, unavailable, "the data store at s3://b")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EIO])
def test_failure_record_of_full_or_missing_disk_names_disk(number: int) -> None:
    unnamed = describe_failed_attempt(ATTEMPT, OSError(number, "why"), JOB)
    named = describe_failed_attempt(ATTEMPT, OSError(number, "why", "/elsewhere/file"), JOB)
    assert unnamed.kind is named.kind is FailureKind.UNAVAILABLE
    assert (unnamed.neighbour, named.neighbour) == (f"the disk of {JOB}", "the disk of /elsewhere")
    assert unnamed.reason == f"the disk of {JOB} is unavailable: why"


@pytest.mark.parametrize(
    "error",
    [
        RowsError.create_damage_error(JOB / "f", "the checksum of row 1 doesn't match"),
        raised_from(OSError("not here"), MissingFileError("s3://b has no f")),
        MissingFileError("s3://b has no f"),
    ],
    ids=str,
)
def test_failure_record_of_missing_or_damaged_file_is_permanent(error: Exception) -> None:
    assert kind_of(error) is FailureKind.PERMANENT


@pytest.mark.parametrize(
    "error",
    [
        HarnessError("the harness has ended"),
        OSError(errno.ENOENT, "No such file or directory"),
        OSError("without a number"),
        StoreError("AccessDenied"),
        RowsError(JOB / "f", "can't be read: [Errno 13] Permission denied"),
        raised_from(ValueError("of the runner"), ValueError("another")),
    ],
    ids=str,
)
def test_failure_record_of_other_error_types_is_external(error: Exception) -> None:
    assert kind_of(error) is FailureKind.OUTSIDE


@pytest.mark.parametrize(
    ("is_loopback", "kind"), [(True, FailureKind.PERMANENT), (False, FailureKind.OUTSIDE)]
)
def test_failure_record_of_unreachable_loopback_pool_is_permanent(
    is_loopback: bool, kind: FailureKind
) -> None:
    error = PoolUnreachable("the worker pool at localhost:1 did not start a worker")
    assert describe_failed_attempt(ATTEMPT, error, JOB, is_loopback=is_loopback).kind is kind


def test_disk_error_raised_by_user_code_is_recorded_as_user_failure() -> None:
    error = raised_from(BundleError("T", "s", ""), OSError(errno.ENOSPC, "of the user's disk"))
    assert kind_of(error) is FailureKind.USER


def test_failure_record_of_error_that_is_its_own_cause_is_created() -> None:
    error = ValueError("one")
    other = raised_from(ValueError("two"), error)
    error.__cause__ = other
    assert kind_of(error) is FailureKind.OUTSIDE


def test_failure_of_user_code_can_be_classified_differently() -> None:
    failure = UserFailure("T", "no place", "")
    broken = BundleFailure(ATTEMPT, failure, kind=FailureKind.PERMANENT)
    event = broken.to_event()
    assert (event.kind, event.detail) == (
        FailureKind.PERMANENT,
        FailedStep("T", "no place", ""),
    )


def read_rows(folder: Path) -> None:
    list(read_referenced_rows(folder, FileRows("f", (0,), checksum=1)))


def read_state(folder: Path) -> None:
    open_segment(folder, Segment("f", 1, 0, 1))


@pytest.mark.parametrize("read", [read_rows, read_state])
def test_failure_record_of_file_missing_from_existing_folder_is_permanent(
    read: object, tmp_path: Path
) -> None:
    assert callable(read)
    jobs = tmp_path / "mounted" / "jobs"
    jobs.mkdir(parents=True)
    for folder in (
        jobs,
        jobs / "job",
    ):  # the job's folder is missing, or exists without the file
        with pytest.raises(FileError, match="is missing") as missing:
            read(folder)
        assert kind_of(missing.value) is FailureKind.PERMANENT


@pytest.mark.parametrize("read", [read_rows, read_state])
def test_failure_record_of_file_below_unmounted_folder_is_outage(
    read: object, tmp_path: Path
) -> None:
    assert callable(read)
    with pytest.raises(ExternalSystemUnavailable, match="is it mounted") as away:
        read(tmp_path / "mounted" / "jobs" / "job")
    assert (
        describe_failed_attempt(ATTEMPT, away.value, JOB).neighbour
        == f"the folder {tmp_path}/mounted/jobs"
    )
