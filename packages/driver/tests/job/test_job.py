"""Tests of a running job from its first state to its last, with threads as workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from beam_runner_model.jobs import Importance, JobState
from beam_runner_runtime.channel.messages import (
    ExitProcess,
    LogBatch,
    RunFinalizers,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_storage.journal.errors import JournalError, JournalFenced
from beam_runner_storage.journal.journal import Journal
from beam_runner_worker.errors import BundleError
from beam_runner_worker.log_records import LogRecord, Severity
from servers import NO_LOOP, SECONDS, Server, blocked
from small_jobs import EXPECTED, LOOP_BYTES, PLAN
from small_plans import values_of
from worker_doubles import SHARDS, seen_in

from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots

New = Callable[..., Server]


def is_gone(server: Server) -> bool:
    """Returns whether the job left no file and no process."""
    return not server.folder.exists() and not server.journal.exists


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("cores", [1, 3])
def test_job_finishes_successfully(new: New, cores: int, loop_bytes: int) -> None:
    server = new(cores=cores, loop_bytes=loop_bytes)
    assert server.run() is JobState.DONE
    assert [state for state, _ in server.reporter.states] == [JobState.RUNNING, JobState.DONE]
    assert server.seen == EXPECTED
    assert is_gone(server)
    assert server.spark.closed == [True]


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_job_fails_if_user_code_raises(new: New, loop_bytes: int) -> None:
    server = new(loop_bytes=loop_bytes, attempts=2)

    def fail(values: list[bytes]) -> Any:
        raise BundleError("Outer/Inner", "ValueError: no", "Traceback of it")

    server.spark.stages["see"].transform = fail
    assert server.run() is JobState.FAILED
    assert server.reason.startswith("ValueError: no [while running 'Outer/Inner'] (attempt 2")
    assert "Traceback of it" in server.reason
    assert is_gone(server)


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("deaths", [1, 100])
def test_job_fails_if_worker_processes_always_exit(new: New, deaths: int, loop_bytes: int) -> None:
    server = new(loop_bytes=loop_bytes)
    left = [deaths]

    def dies(order: Any) -> bool:
        left[0] -= 1
        return left[0] >= 0

    server.spark.dies = dies
    if deaths == 1:
        assert server.run() is JobState.DONE
        assert server.seen == EXPECTED
    else:
        assert server.run() is JobState.FAILED
        assert "'the read step' failed 4 times" in server.reason
        assert server.seen == {}


def test_job_fails_if_spark_starts_no_task(new: New) -> None:
    server = new()
    server.spark.refuses = "the cluster is gone"
    assert server.run() is JobState.FAILED
    assert "the cluster is gone" in server.reason


def test_running_job_is_cancelled(new: New) -> None:
    server = new()
    go_on = blocked(server)
    server.job.cancel()
    server.job.cancel()
    threading.Timer(0.5, go_on.set).start()
    assert server.wait() is JobState.CANCELLED
    assert server.seen == {}
    assert is_gone(server)
    server.job.cancel()


def test_job_is_cancelled_before_start(new: New) -> None:
    server = new()
    server.job.cancel()
    assert server.run() is JobState.CANCELLED


def test_job_waits_for_admission_until_another_job_has_ended(new: New) -> None:
    server = new(slots=ClusterSlots(1))
    other = JobSlots(server.slots, "other")
    assert other.try_start_job(lambda: None)
    server.start()
    time.sleep(0.3)
    assert server.reporter.states == []
    other.release_all_slots_of_job()
    assert server.wait() is JobState.DONE
    assert JobSlots(server.slots, "next").try_start_job(lambda: None)


def test_job_waiting_for_admission_can_be_cancelled(new: New) -> None:
    server = new(slots=ClusterSlots(1))
    assert JobSlots(server.slots, "other").try_start_job(lambda: None)
    server.start()
    server.job.cancel()
    assert server.wait() is JobState.CANCELLED


@pytest.mark.parametrize("fails", [False, True], ids=["cancelled", "failed"])
def test_job_end_is_reported_to_spark_before_processes_exit(
    new: New, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Otherwise Spark treats the processes as crashed, logs long errors, and retries the lanes of
    these processes.
    """
    server = new(cores=2)
    ended: list[str] = []
    send = WorkerLink.send

    def sent(link: WorkerLink, command: Any) -> None:
        if isinstance(command, ExitProcess):
            ended.append("process")
        send(link, command)

    monkeypatch.setattr(WorkerLink, "send", sent)
    server.spark.on_cancel = lambda: ended.append("Spark")
    begun, go_on = threading.Event(), threading.Event()

    def fail_or_wait(chunk: Any) -> None:
        if fails and b"a" in values_of(chunk):
            assert begun.wait(SECONDS)
            raise BundleError("T", "ValueError: no", "trace")
        begun.set()
        go_on.wait(SECONDS)

    server.spark.stages["see"].during = fail_or_wait
    server.start()
    assert begun.wait(SECONDS)
    if not fails:
        server.job.cancel()
    threading.Timer(0.5, go_on.set).start()
    assert server.wait() is (JobState.FAILED if fails else JobState.CANCELLED)
    assert ended[0] == "Spark"
    assert "process" in ended


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_job_is_continued_by_another_server(new: New, loop_bytes: int) -> None:
    server = new(loop_bytes=loop_bytes)
    go_on = blocked(server)
    server.job.suspend()
    threading.Timer(0.5, go_on.set).start()
    assert server.wait() is JobState.RUNNING
    assert server.journal.exists and server.folder.exists()
    again = new(loop_bytes=loop_bytes)
    assert again.job.get_metrics().committed == server.job.get_metrics().committed
    assert again.run() is JobState.DONE
    assert again.seen == EXPECTED
    # Finished work was not repeated, including work of a loop that was left because of the stop.
    assert again.spark.stages["read"].bundles == []
    assert is_gone(again)


def test_job_end_not_yet_reported_is_reported_by_next_server(new: New) -> None:
    """A stopping server refuses the report. The next server needs the journal to repeat it."""
    server = new(refuses_end=True)
    server.run()
    assert server.journal.exists
    again = new()
    assert again.run() is JobState.DONE
    assert again.seen == EXPECTED
    assert is_gone(again)


def test_job_metrics_are_complete_when_end_is_reported(new: New) -> None:
    server = new()
    asked: list[Any] = []
    real = server.reporter.report_state

    def report_state(state: JobState, reason: str | None = None) -> bool:
        if state.is_terminal:
            asked.append(server.job.get_metrics())
        return real(state, reason)

    server.reporter.report_state = report_state  # type: ignore[method-assign]
    server.run()
    assert seen_in(asked[0].committed) == EXPECTED


def test_job_callbacks_run_only_after_commit(new: New, monkeypatch: pytest.MonkeyPatch) -> None:
    server = new(loop_bytes=LOOP_BYTES)
    for harness in server.spark.stages.values():
        harness.finalizes = True
    order: list[str] = []
    append = Journal.append_entries

    def appended(journal: Journal, entries: Any) -> None:
        assert not any(isinstance(command, RunFinalizers) for command in server.spark.sent)
        append(journal, entries)
        order.append("append")

    monkeypatch.setattr(Journal, "append_entries", appended)
    server.run()
    assert order == ["append"]
    assert any(isinstance(command, RunFinalizers) for command in server.spark.sent)


# Failures of Spark, the disk and the journal.


def test_job_fails_if_its_journal_cannot_be_written(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new()

    def append(journal: Journal, entries: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Journal, "append_entries", append)
    assert server.run() is JobState.FAILED
    assert "OSError: the disk is full" in server.reason


def test_job_deletes_data_to_free_disk_space_for_journal(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new()
    delete = Journal.delete_journal

    def needs_room(journal: Journal) -> None:
        if server.folder.exists():
            raise JournalError("the disk is full")
        delete(journal)

    monkeypatch.setattr(Journal, "delete_journal", needs_room)
    assert server.run() is JobState.DONE
    assert not server.folder.exists()
    assert not server.journal.exists


def test_job_taken_over_by_another_server_is_neither_ended_nor_deleted(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server owns the folder. This server must neither report the end of the job nor delete its files."""
    server = new()

    def fenced(*arguments: Any) -> None:
        raise JournalFenced("another server has taken over")

    monkeypatch.setattr(Journal, "append_entries", fenced)
    monkeypatch.setattr(Journal, "delete_journal", fenced)
    assert server.run() is JobState.RUNNING
    assert server.folder.exists()


def test_job_end_is_reported_despite_spark_error(new: New) -> None:
    server = new()

    def broken() -> None:
        raise RuntimeError("SparkContext was shut down")

    server.spark.on_cancel = broken
    server.spark.stages["see"].during = lambda chunk: (_ for _ in ()).throw(
        BundleError("T", "ValueError: no", "trace")
    )
    assert server.run() is JobState.FAILED
    assert "ValueError: no" in server.reason


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_job_continues_after_spark_exits(new: New, loop_bytes: int) -> None:
    """Repeated exits of Spark count as no failed attempt of the running bundles."""
    for _ in range(6):
        server = new(loop_bytes=loop_bytes, resumable=True)
        go_on = blocked(server)
        server.spark.end()
        go_on.set()
        assert server.wait() is JobState.RUNNING
    assert new(loop_bytes=loop_bytes).run() is JobState.DONE


def test_job_that_cannot_be_resumed_fails_if_spark_exits(new: New) -> None:
    server = new()
    go_on = blocked(server)
    server.spark.end()
    go_on.set()
    assert server.wait() is JobState.FAILED
    assert "Spark exited" in server.reason


# Requests and messages of workers.


def test_worker_process_gets_all_job_settings(new: New) -> None:
    server = new()
    work = server.job.make_job_work()
    assert (work.plan, work.shards, work.store.folder) == (PLAN, SHARDS, server.folder)
    assert list(server.job.read_artifact("abc")) == [b"abc"]


def test_log_records_of_job_become_messages(new: New) -> None:
    server = new()
    link = WorkerLink(WorkerHello("job-1", "host", 1))
    records = (
        LogRecord(Severity.WARN, 0, "careful", transform_id="T"),
        LogRecord(Severity.ERROR, 0, "bad", trace="Traceback"),
        LogRecord(Severity.INFO, 0, "half way", transform_id="T"),
        LogRecord(Severity.INFO, 0, "control channel established"),
        LogRecord(Severity.UNSPECIFIED, 0, "what"),
    )
    server.job.handle_message(link, LogBatch(records))
    assert server.reporter.messages == [
        (Importance.WARNING, "careful", "T", "host:1"),
        (Importance.ERROR, "bad\nTraceback", "", "host:1"),
        (Importance.BASIC, "half way", "T", "host:1"),
        (Importance.DETAILED, "control channel established", "", "host:1"),
        (Importance.DETAILED, "what", "", "host:1"),
    ]


@pytest.mark.parametrize("phase", ["work", "clean_up"])
def test_job_thread_that_ends_by_error_fails_job_with_reason(
    new: New, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """The error can have any type, for example if another library raises it in the thread to end the thread."""
    server = new()

    def break_off(*_: Any) -> None:
        raise SystemExit("ended by the test")

    if phase == "work":
        monkeypatch.setattr(server.job._coordinator, "run_round", break_off)
    else:
        monkeypatch.setattr(server.job, "_finish_job", break_off)
    state = server.run()
    if phase == "work":
        assert state is JobState.FAILED
        assert server.reason == "the server failed: SystemExit: ended by the test"
    else:
        assert state is JobState.DONE
    assert server.spark.closed != []
