"""A job that ends servers while it is started is FAILED at the third start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.records import JobSpec

from beam_spark_executor.driver.executor import ExecutorSettings, SparkJobExecutor
from beam_spark_executor.driver.starts import counted_start

_DIES = """
import os, sys
from pathlib import Path
from beam_spark_executor.driver.starts import counted_start
with counted_start(Path(sys.argv[1])):
    os._exit(9)
"""


def die_within(folder: Path) -> None:
    """A process that ends suddenly while it starts a job."""
    ended = subprocess.run([sys.executable, "-c", _DIES, str(folder)], check=False, timeout=60)
    assert ended.returncode == 9


def test_the_third_start_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    die_within(folder)
    die_within(folder)
    with (
        pytest.raises(JobRejected, match="2 servers ended suddenly") as refused,
        counted_start(folder),
    ):
        pytest.fail("it was started")
    assert not refused.value.unsupported


def test_a_start_that_succeeds_counts_anew(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    die_within(folder)
    with counted_start(folder):
        assert list(folder.iterdir())
    assert not list(folder.iterdir())
    die_within(folder)
    with counted_start(folder):
        pass


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), counted_start(tmp_path / "job"):
        raise KeyError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "many"])
def test_a_count_that_can_not_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "starts").write_text(text)
    with counted_start(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_jobs_are_translated_and_restored_within_a_counted_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def ledger(self: Any, job: JobSpec, journal: Any, data: Any) -> None:
        seen.extend(path.name for path in (tmp_path / job.job_id).iterdir())
        raise JobRejected("seen")

    monkeypatch.setattr(SparkJobExecutor, "_ledger", ledger)
    executor = SparkJobExecutor.__new__(SparkJobExecutor)
    monkeypatch.setattr(
        executor,
        "_store",
        SimpleNamespace(journal=lambda job_id: None, epoch=1, durable=False),
        raising=False,
    )
    settings = ExecutorSettings(tmp_path)
    monkeypatch.setattr(executor, "_settings", settings, raising=False)
    monkeypatch.setattr(executor, "_placement", SimpleNamespace(cores=1), raising=False)
    monkeypatch.setattr(executor, "_elsewhere", frozenset(), raising=False)
    job = JobSpec("job-1", "sample", b"", {}, "{}", {}, "localhost:1")
    with pytest.raises(JobRejected, match="seen"):
        executor(job, SimpleNamespace())  # type: ignore[arg-type]
    assert seen == ["starts"]
