"""Tests of a running job with unavailable neighbours, and of the state of a stream that ended early."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import attrs
import pytest
from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_model.jobs import JobState
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_planner.plan import JobPlan, TruncationPlan
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from beam_runner_worker.errors import BundleError
from job_server import wait_until
from servers import NO_LOOP, Server
from small_jobs import EXPECTED, LOOP_BYTES, PLAN, TRANSFORMS

from beam_runner_driver.ledger import retrying_journal
from beam_runner_driver.ledger.recovery import recover_ledger

AWAY = ExternalSystemUnavailable("the disk of /state", "disk is full")
LARGE = 40_000
"""Size of a value that is written to a file, in bytes."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_journal, "_PAUSES", Pauses(20, 80))


New = Callable[..., Server]


def endless(plan: JobPlan) -> JobPlan:
    """Returns the plan with a source that can emit elements endlessly."""
    see = attrs.evolve(plan.stages["see"], truncation=TruncationPlan(None, endless=True))
    return attrs.evolve(plan, stages={**plan.stages, "see": see})


STREAM = endless(PLAN)


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_job_with_temporarily_full_journal_disk_continues(
    new: New, loop_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new(loop_bytes=loop_bytes)
    left = [6]
    append = type(server.journal).append_entries

    def refuse(journal: Any, entries: Sequence[bytes]) -> None:
        if left[0]:
            left[0] -= 1
            raise JournalUnavailable(AWAY)
        append(journal, entries)

    monkeypatch.setattr(type(server.journal), "append_entries", refuse)
    assert server.run() is JobState.DONE
    assert server.seen == EXPECTED
    assert left == [0]
    (told,) = [text for _, text, _ in server.reporter.messages if "the job waits" in text][:1]
    assert told.startswith("the job waits for the disk of /state")
    assert "disk is full" in told
    assert len(server.reporter.messages) < 6, "messages become rarer during the outage"


def test_job_is_cancelled_while_its_journal_disk_is_full(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(journal: Any, entries: Sequence[bytes]) -> None:
        raise JournalUnavailable(AWAY)

    server = new(limits={"outage_limit": None})
    monkeypatch.setattr(retrying_journal, "_PAUSES", Pauses(60_000, 60_000))
    monkeypatch.setattr(type(server.journal), "append_entries", refuse)
    server.start()

    def outages() -> list[Wait]:
        waits = server.job.get_execution().waits
        return [wait for wait in waits if wait.kind is WaitKind.NEIGHBOUR]

    wait_until(lambda: bool(outages()), 30, "the outage is shown")
    (shown,) = outages()
    assert (shown.neighbour, shown.reason) == ("the disk of /state", "disk is full")
    began = time.monotonic()
    server.job.cancel()
    assert server.wait() is JobState.CANCELLED
    assert time.monotonic() - began < 30


def test_outage_of_journal_is_shown_until_retry_succeeds(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new()
    append = type(server.journal).append_entries
    shown: list[list[str]] = []

    def refuse(journal: Any, entries: Sequence[bytes]) -> None:
        waits = server.job.get_execution().waits
        shown.append([one.neighbour for one in waits if one.kind is WaitKind.NEIGHBOUR])
        if len(shown) < 4:
            raise JournalUnavailable(AWAY)
        append(journal, entries)

    monkeypatch.setattr(type(server.journal), "append_entries", refuse)
    assert server.run() is JobState.DONE
    assert shown[:4] == [[], *[["the disk of /state"]] * 3]
    assert shown[-1] == []


def test_bounded_job_with_full_journal_disk_fails_after_limit(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(journal: Any, entries: Sequence[bytes]) -> None:
        raise JournalUnavailable(AWAY)

    server = new(limits={"outage_limit": 200})
    monkeypatch.setattr(type(server.journal), "append_entries", refuse)
    assert server.run() is JobState.FAILED
    assert server.reason == (
        "Can't write the journal of the job: the disk of /state is unavailable: disk is full"
    )


def refusing_to_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]
) -> Server:
    """Makes each append fail, after a call of ``then``."""

    def refuse(journal: Any, entries: Sequence[bytes]) -> None:
        then()
        raise JournalUnavailable(AWAY)

    monkeypatch.setattr(type(server.journal), "append_entries", refuse)
    return server


def test_job_failed_by_full_disk_frees_space_before_its_end_is_reported(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = refusing_to_the_end(new(limits={"outage_limit": 200}), monkeypatch, lambda: None)
    had_room: list[bool] = []
    report = server.reporter.report_state

    def report_state(state: JobState, *more: Any) -> bool:
        if state is JobState.FAILED:
            had_room.append(not server.folder.exists())
        return report(state, *more)

    monkeypatch.setattr(server.reporter, "report_state", report_state)
    assert server.run() is JobState.FAILED
    assert had_room == [True]


def test_job_taken_over_during_outage_keeps_its_data(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new(limits={"outage_limit": 200}, refuses_end=True)

    def take_over() -> None:
        with closing(sqlite3.connect(server.place / "journal" / "journal.sqlite")) as other, other:
            other.execute("UPDATE epochs SET epoch = ?", (server.store.epoch + 1,))

    refusing_to_the_end(server, monkeypatch, take_over).run()
    assert server.folder.exists()


# The remaining state of an ended job.


def failing(server: Server) -> Server:
    def fail(values: list[bytes]) -> Any:
        raise BundleError("Outer/Inner", "ValueError: no", "Traceback of it")

    server.spark.stages["see"].transform = fail
    return server


def test_failed_stream_retains_its_ledger_and_needed_files(new: New) -> None:
    values = [bytes([97 + number]) * LARGE for number in range(4)]
    transforms = {"read": lambda _: {"out": values}}
    server = failing(new(plan=STREAM, keep_seconds=3600, transforms=transforms))
    (server.folder / "litter").write_bytes(b"of an attempt that failed")
    (server.folder / "process").mkdir()
    assert server.run() is JobState.FAILED
    (since,) = server.store.list_finished_jobs().values()
    assert since == pytest.approx(time.time(), abs=60)
    assert any(
        "the state of this stream is kept until" in text for _, text, _ in server.reporter.messages
    )
    ledger = recover_ledger(server.journal)
    assert isinstance(ledger.end, FailJob)
    assert (
        {path.name for path in server.folder.iterdir()} == set(ledger.list_needed_files()) != set()
    )
    work = [one for record in ledger._scheduler.state.bundles.values() for one in record.work]
    ready = ledger._scheduler.state.stages[1].shards[None].ready.values()
    count = sum(
        one.data.facts.count for one in (*work, *(item for items in ready for item in items))
    )
    assert count == len(values), "all unfinished work is in the journal"


def test_cancelled_stream_retains_its_state(new: New) -> None:
    server = new(
        plan=STREAM, keep_seconds=3600, limits={"pauses": Pauses(60_000, 60_000)}, attempts=9
    )
    failing(server).start()
    wait_until(lambda: bool(server.job._ledger.list_retried_bundles()), 30, "a bundle has failed")
    server.job.cancel()
    assert server.wait() is JobState.CANCELLED
    assert server.store.list_finished_jobs().keys() == {"job-1"}
    assert len(recover_ledger(server.journal)._scheduler.state.bundles) > 0


@pytest.mark.parametrize(
    ("plan", "seconds", "fails"),
    [(PLAN, 3600, True), (STREAM, 0, True), (STREAM, 3600, False)],
    ids=["a bounded job", "no retention", "a stream that is done"],
)
def test_finished_jobs_other_than_failed_streams_retain_no_state(
    new: New, plan: JobPlan, seconds: float, fails: bool
) -> None:
    server = new(plan=plan, keep_seconds=seconds, transforms=TRANSFORMS)
    if fails:
        failing(server)
    assert server.run() is (JobState.FAILED if fails else JobState.DONE)
    assert server.store.list_finished_jobs() == {}
    assert not server.journal.exists
    assert not server.folder.exists()


def test_stream_left_by_stopping_server_is_not_marked_as_ended(new: New) -> None:
    server = failing(new(plan=STREAM, keep_seconds=3600, refuses_end=True))
    server.run()
    assert server.journal.exists
    assert server.folder.exists()
