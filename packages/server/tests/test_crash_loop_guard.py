"""Tests that a job whose start crashes the server is FAILED at the third start."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import JobSpec
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.journal.lineages import Lineage
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_server.crash_loop_guard import count_job_start
from beam_runner_server.executor import PlacedJobExecutor
from beam_runner_server.executor_settings import ExecutorSettings
from beam_runner_server.job_folders import JobFolders

JOB = JobSpec("job-1", "sample", b"", {}, "{}", {}, "localhost:1")

_DIES = """
import os, sys
from pathlib import Path
from beam_runner_server.crash_loop_guard import count_job_start
with count_job_start(Path(sys.argv[1])):
    os._exit(9)
"""


def die_within(folder: Path) -> None:
    """Runs a process that exits suddenly while it starts a job."""
    ended = subprocess.run([sys.executable, "-c", _DIES, str(folder)], check=False, timeout=60)
    assert ended.returncode == 9


def test_job_whose_start_crashed_server_twice_is_refused_at_third_start(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    die_within(folder)
    die_within(folder)
    with (
        pytest.raises(JobRejected, match="2 servers in a row crashed") as refused,
        count_job_start(folder),
    ):
        pytest.fail("the job was started")
    assert not refused.value.unsupported


def test_successful_job_start_resets_start_count(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    die_within(folder)
    with count_job_start(folder):
        assert list(folder.iterdir())
    assert not list(folder.iterdir())
    die_within(folder)
    with count_job_start(folder):
        pass


def test_job_start_that_raises_an_error_leaves_no_start_count_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError), count_job_start(tmp_path / "job"):
        raise KeyError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "many"])
def test_unreadable_start_count_of_job_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "starts").write_text(text)
    with count_job_start(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def executor_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ledger: Callable[..., None]
) -> PlacedJobExecutor:
    """Returns an executor with only the parts that create or recover the ledger (committed state)
    of a job.
    """
    monkeypatch.setattr(PlacedJobExecutor, "_open_ledger", ledger)
    executor = PlacedJobExecutor.__new__(PlacedJobExecutor)
    store = SimpleNamespace(
        get_journal=lambda job_id: None,
        find_lineage=Lineage,
        find_successor=lambda job_id: "",
        epoch=1,
        durable=False,
    )
    parts = {
        "_store": store,
        "_settings": ExecutorSettings(JobFolders(StoreSpec(str(folder)), folder)),
        "_placement": SimpleNamespace(cores=1),
        "_elsewhere": frozenset(),
    }
    for name, part in parts.items():
        monkeypatch.setattr(executor, name, part, raising=False)
    return executor


def test_crash_during_job_translation_or_restore_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def ledger(self: Any, job: JobSpec, journal: Any, data: Any) -> None:
        seen.extend(path.name for path in (tmp_path / job.job_id).iterdir())
        raise JobRejected("seen")

    executor = executor_of(tmp_path, monkeypatch, ledger)
    with pytest.raises(JobRejected, match="seen"):
        executor(JOB, SimpleNamespace())  # type: ignore[arg-type]
    assert seen == ["starts"]


FULL = OSError(errno.ENOSPC, "No space left on device")
STORE = ExternalSystemUnavailable("the data store at s3://b", "no answer")


@pytest.mark.parametrize(
    "error", [FULL, STORE, JournalUnavailable(STORE)], ids=["disk", "store", "journal"]
)
@pytest.mark.parametrize("resumed", [True, False])
def test_job_start_with_unavailable_store_raises_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, resumed: bool
) -> None:
    def ledger(*_: Any) -> None:
        raise error

    executor = executor_of(tmp_path, monkeypatch, ledger)
    job = attrs.evolve(JOB, resumed=resumed)
    with pytest.raises(Unavailable if resumed else type(error)):
        executor(job, SimpleNamespace())  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir()), "the start isn't counted"


def test_job_start_raises_other_errors_of_restored_job_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ledger(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    executor = executor_of(tmp_path, monkeypatch, ledger)
    with pytest.raises(PermissionError):
        executor(attrs.evolve(JOB, resumed=True), SimpleNamespace())  # type: ignore[arg-type]
