"""Crash-loop guard: a job whose start crashes two servers isn't started by the next server.

While a server translates a job, or recovers a job from its journal, a file in the job's folder
contains the number of starts. If the server crashes meanwhile, the next server finds this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.errors import Unavailable
from beam_runner_runtime.bundles.failed_attempts import find_unavailable_service
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.unavailable import ExternalSystemUnavailable

_NAME = "starts"
_SUDDEN_ENDS = 2


@contextmanager
def count_job_start(folder: Path, *, removes_folder: bool = False) -> Iterator[None]:
    """Counts the start of a job, within a ``with`` block. The count is reset if the block ends
    without a crash of the server.

    Args:
        folder: the job's folder, which is created if it doesn't exist.
        removes_folder: whether to remove the folder after the block if it is empty. Otherwise, only an
            error removes it.

    Raises:
        JobRejected: two servers have crashed while they started the job.
    """
    count = folder / _NAME
    ends = _read_start_count(count)
    if ends >= _SUDDEN_ENDS:
        count.unlink(missing_ok=True)
        raise JobRejected(
            f"{ends} servers in a row crashed while they started this job, so this"
            " server doesn't start it; look for the cause, such as too little memory,"
            " in their logs and in the system's log",
            unsupported=False,
        )
    folder.mkdir(parents=True, exist_ok=True)
    count.write_text(str(ends + 1))
    try:
        yield
    except BaseException:
        removes_folder = True
        raise
    finally:
        count.unlink(missing_ok=True)
        if removes_folder:
            with suppress(OSError):
                folder.rmdir()


def _read_start_count(count: Path) -> int:
    try:
        return int(count.read_text())
    except (OSError, ValueError):
        return 0


@contextmanager
def report_unavailable_storage(folder: Path) -> Iterator[None]:
    """Converts errors about unavailable disks and stores, within a ``with`` block, to
    `Unavailable`, so that the server starts the job later.

    Args:
        folder: the folder of the jobs.

    Raises:
        Unavailable: a disk or a store is unavailable.
    """
    try:
        yield
    except (JournalUnavailable, ExternalSystemUnavailable, OSError) as error:
        away = (
            error
            if isinstance(error, JournalUnavailable)
            else find_unavailable_service(error, folder)
        )
        if away is None:
            raise
        raise Unavailable(str(away)) from error
