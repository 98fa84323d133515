"""Tests of group commit: concurrent writes share one transaction, and each write is complete or missing."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import JobState, StateEvent
from waiting import eventually

from beam_runner_jobservices.errors import DiskFull
from beam_runner_jobservices.job_file import JobFile
from beam_runner_jobservices.recorder import UnfinishedJob

from .fakes import LIMIT
from .test_job_file import kept

WRITERS = 20
KILLED = Path(__file__).with_name("job_file_to_kill.py")


@pytest.fixture
def file(tmp_path):
    opened = JobFile(tmp_path)
    yield opened
    opened.close()


def add_at_once(file, jobs):
    """Adds each job in a separate thread, all before the first write starts. Returns the raised errors."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        with file._mutex:
            adding = [threads.submit(file.add_job, job) for job in jobs]
            assert eventually(lambda: len(file._commits._waiting) == len(jobs))
        return [future.exception(LIMIT) for future in adding]


def test_group_commit_stores_concurrent_writes_in_one_durable_transaction(file, tmp_path):
    statements = []
    file._connection.set_trace_callback(statements.append)
    jobs = [kept(f"job-{number}") for number in range(WRITERS)]
    assert add_at_once(file, jobs) == [None] * WRITERS
    told = [text for text in statements if text == "COMMIT" or "synchronous" in text]
    assert told == ["PRAGMA synchronous = FULL", "COMMIT"]
    file.close()
    with closing(JobFile(tmp_path)) as again:
        assert sorted(job.spec.job_id for job in again.jobs) == sorted(
            job.spec.job_id for job in jobs
        )
        assert not again.damage


def test_group_commit_includes_second_write_of_same_writer(file, monkeypatch):
    groups = []
    together = file._commits._commit_group

    def slowly(group):
        groups.append(len(group))
        time.sleep(0.05)
        together(group)

    monkeypatch.setattr(file._commits, "_commit_group", slowly)

    def begin(number):
        job_id = f"job-{number}"
        file.add_job(kept(job_id))
        file.add_state(job_id, StateEvent(JobState.STARTING, 2.0))
        file.add_state(job_id, StateEvent(JobState.RUNNING, 2.5))

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(begin, range(WRITERS)))
    assert sum(groups) == 3 * WRITERS
    assert len(groups) <= WRITERS


def test_group_commit_with_failing_write_stores_all_other_writes(file, tmp_path):
    file.add_job(kept("job-0"))
    twice = UnfinishedJob(
        kept("job-0").spec, "other", "other", (StateEvent(JobState.STOPPED, 9.0),)
    )
    raised = add_at_once(file, [kept("job-1"), twice, kept("job-2")])
    assert [type(error) for error in raised] == [type(None), Unavailable, type(None)]
    file.close()
    with closing(JobFile(tmp_path)) as again:
        assert not again.damage
        first, *others = again.jobs
        assert (first.preparation_id, len(first.entries)) == ("preparation-of-job-0", 1)
        assert {job.spec.job_id for job in others} == {"job-1", "job-2"}


def test_group_commit_with_failed_transaction_raises_in_all_waiting_writers(file, tmp_path):
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)) as other:
        file._connection.execute("PRAGMA busy_timeout = 10")
        other.execute("BEGIN IMMEDIATE")
        raised = add_at_once(file, [kept(f"job-{number}") for number in range(3)])
        assert [type(error) for error in raised] == [Unavailable] * 3
        other.execute("ROLLBACK")
    file.add_job(kept("job-9"))
    file.close()
    with closing(JobFile(tmp_path)) as again:
        assert [job.spec.job_id for job in again.jobs] == ["job-9"]


def test_acknowledged_write_survives_kill_between_commits(tmp_path):
    process = subprocess.Popen(
        [sys.executable, str(KILLED), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    acknowledged = []
    with process:
        for line in process.stdout:
            acknowledged.append(line.strip())
            if len(acknowledged) == 60:
                process.send_signal(signal.SIGKILL)
    watchdog.cancel()
    assert len(acknowledged) >= 60
    with closing(JobFile(tmp_path)) as again:
        assert not again.damage
        states = {
            job.spec.job_id: {entry.state.name for entry in job.entries} for job in again.jobs
        }
    for told in acknowledged[:60]:
        job_id, state = told.split()
        assert state in states[job_id]


class FullDisk:
    """A database that can't grow, as on a full disk."""

    def __init__(self, connection):
        self._connection = connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        self._limit(pages)

    def make_room(self):
        self._limit(1 << 30)

    def _limit(self, pages):
        self._connection.execute(f"PRAGMA max_page_count = {pages}")


LARGE = "x" * 50_000


def test_state_write_on_full_disk_waits_until_disk_has_space(file, tmp_path, caplog):
    file.add_job(kept("job"))
    disk = FullDisk(file._connection)
    event = StateEvent(JobState.RUNNING, 2.0)

    def write(connection, change):
        connection.execute("INSERT INTO notes VALUES ('job', 'x', 0, ?)", (LARGE,))
        return event

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(file._commits.commit_with_retries, write)
        assert eventually(lambda: "Can't write the list of jobs" in caplog.text)
        assert not writing.done()
        with file._mutex:
            disk.make_room()
        assert writing.result(LIMIT) == event
    assert caplog.text.count("Can't write the list of jobs; jobs wait") == 1
    found = file._connection.execute("SELECT content FROM notes").fetchall()
    assert found == [(LARGE,)]


def test_state_write_on_full_disk_stops_waiting_at_server_shutdown(file):
    file.add_job(kept("job"))
    FullDisk(file._connection)
    file.stop_retries()

    def write(connection, change):
        connection.execute("INSERT INTO notes VALUES ('job', 'x', 0, ?)", (LARGE,))

    with pytest.raises(sqlite3.OperationalError, match="full"):
        file._commits.commit_with_retries(write)


def test_new_job_on_full_disk_is_refused_immediately(file):
    FullDisk(file._connection)
    with pytest.raises(DiskFull):
        file.add_job(kept("job" + LARGE))
