"""Tests of jobs in a log: the next server restores them on another machine as from the folder."""

from __future__ import annotations

from contextlib import closing

import attrs
import pytest
from beam_runner_model.errors import RunnerError, Unavailable
from beam_runner_model.jobs import Importance, JobMessage, JobMetrics, JobSpec, JobState, StateEvent
from beam_runner_storage.durable.databases import DatabaseSchema, begin_transaction, open_database
from beam_runner_storage.durable.logged import LogFailed

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.job_file import JobFile
from beam_runner_jobservices.recorder import FinishedJobSummary, UnfinishedJob

from .logs import MemoryLog

SCHEMA = DatabaseSchema(1, "CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT UNIQUE);")


def kept(job_id):
    spec = JobSpec(job_id, "Wörter", b"\x00pipeline\xff", {"x": 3}, '{"x": 3}', {}, "")
    return UnfinishedJob(
        spec, f"preparation-of-{job_id}", "owner", (StateEvent(JobState.STOPPED, 1.5),)
    )


def message(number):
    return JobMessage(str(number), "2024-01-01T00:00:00.000+00:00", Importance.WARNING, "text")


def end(file, job):
    entries = (*job.entries, StateEvent(JobState.DONE, 3.0))
    file.end_job(job.spec, Archive(job.spec.pipeline, entries, JobMetrics()))


@pytest.fixture
def log():
    return MemoryLog()


def test_logged_jobs_are_restored_by_next_server_without_state_folder(log, tmp_path):
    first, second = kept("a"), kept("b")
    with closing(JobFile(tmp_path / "1", log)) as file:
        file.add_job(first)
        file.add_job(second)
        file.add_messages("a", [message(1)], 1, JobErrors())
        file.add_state("a", StateEvent(JobState.RUNNING, 2.0))
        end(file, second)
    with closing(JobFile(tmp_path / "2", log)) as again:
        entries = (*first.entries, message(1), StateEvent(JobState.RUNNING, 2.0))
        going_on, ended = again.jobs
        assert going_on == attrs.evolve(first, entries=entries, was_running=True)
        assert isinstance(ended, FinishedJobSummary)
        assert again.read_archive("b").entries[-1] == StateEvent(JobState.DONE, 3.0)
        assert again.damage == ()
        end(again, first)
        again.delete_job("b")
    with closing(JobFile(tmp_path / "3", log)) as last:
        assert [job.job_id for job in last.jobs] == ["a"]
        assert last.read_archive("a").entries[-1] == StateEvent(JobState.DONE, 3.0)


def test_snapshot_of_logged_jobs_replaces_earlier_changes(log, tmp_path):
    log.each = 3
    with closing(JobFile(tmp_path / "1", log)) as file:
        for number in range(20):
            file.add_job(kept(str(number)))
    assert log.copies > 5
    assert len(log.transactions) < 3
    with closing(JobFile(tmp_path / "2", log)) as again:
        assert [job.spec.job_id for job in again.jobs] == [str(number) for number in range(20)]


def test_server_with_failing_job_log_refuses_new_jobs_and_continues(log, tmp_path, caplog):
    with closing(JobFile(tmp_path / "1", log)) as file:
        file.add_job(kept("a"))
        log.failure = "another server has taken over"
        with pytest.raises(Unavailable, match="can't be recorded: another server has taken over"):
            file.add_job(kept("b"))
        file.add_state("a", StateEvent(JobState.RUNNING, 2.0))
        assert "the server won't know it: another server" in caplog.text
    with closing(JobFile(tmp_path / "2", log)) as again:
        (found,) = again.jobs
        assert found == kept("a")


def test_job_is_refused_and_not_started_later_if_its_log_is_unavailable(log, tmp_path):
    with closing(JobFile(tmp_path / "1", log)) as file:
        file.add_job(kept("a"))
        log.outage = "connection refused"
        text = "can't be recorded: the state store is unavailable: connection refused"
        with pytest.raises(Unavailable, match=text):
            file.add_job(kept("b"))
        log.outage = ""
        file.add_job(kept("c"))
    with closing(JobFile(tmp_path / "2", log)) as again:
        assert again.jobs == (kept("a"), kept("c"))
        assert again.damage == ()


def test_damaged_log_of_jobs_is_left_unchanged(log, tmp_path):
    with closing(JobFile(tmp_path / "1", log)) as file:
        file.add_job(kept("a"))
    log.transactions.append([("UPDATE jobs SET options = '{}'", False, ())])
    log.durable += 1
    before = log.base, list(log.transactions)
    with pytest.raises(RunnerError, match="checksum"):
        JobFile(tmp_path / "2", log)
    assert (log.base, log.transactions) == before


@pytest.mark.parametrize(
    "transactions",
    [
        [[("UPDATE nowhere SET x = 1", False, ())]],
        [[("INSERT INTO t VALUES (1, 'a')", False, ())]] * 2,
    ],
)
def test_inconsistent_log_of_jobs_is_refused(log, tmp_path, transactions):
    connection, _ = open_database(tmp_path / "1.sqlite", SCHEMA, durable=False, log=log)
    connection.start_log(log, tmp_path / "1.sqlite")
    connection.close()
    log.transactions, log.durable = transactions, len(transactions)
    with pytest.raises(LogFailed, match="can't be applied to the stored copy"):
        open_database(tmp_path / "2.sqlite", SCHEMA, durable=False, log=log)


def test_logged_changes_without_snapshot_are_refused(tmp_path):
    log = MemoryLog(None, [[("DELETE FROM t", False, ())]], durable=1)
    with pytest.raises(LogFailed, match="not the copy to which they belong"):
        open_database(tmp_path / "1.sqlite", SCHEMA, durable=False, log=log)


def test_job_transaction_is_logged_completely_or_not_at_all(log, tmp_path):
    connection, _ = open_database(tmp_path / "1.sqlite", SCHEMA, durable=False, log=log)
    connection.start_log(log, tmp_path / "1.sqlite")
    with begin_transaction(connection):
        connection.executemany("INSERT INTO t VALUES (?, ?)", ((n, str(n)) for n in range(3)))
        connection.execute("SAVEPOINT one")
        connection.execute("DELETE FROM t")
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
    with pytest.raises(ZeroDivisionError), begin_transaction(connection):
        connection.execute("DELETE FROM t")
        raise ZeroDivisionError
    with begin_transaction(connection):
        connection.execute("SELECT * FROM t")
    assert len(log.transactions) == 1
    with pytest.raises(AssertionError, match="unknown kind of SQL statement: DROP TABLE t"):
        connection.execute("DROP TABLE t")
    connection.wait_until_durable()
    connection.close()
    again, _ = open_database(tmp_path / "2.sqlite", SCHEMA, durable=False, log=log)
    assert again.execute("SELECT text FROM t ORDER BY number").fetchall() == [
        ("0",),
        ("1",),
        ("2",),
    ]
    again.close()
