"""Tests of the story of a bundle in its journal: planned, tried, failed, committed, with its input and output."""

from __future__ import annotations

from pathlib import Path

from beam_runner_model.failures import FailureCause
from beam_runner_model.stories import (
    BundleHistory,
    BundleStatus,
    HistoryEventKind,
    render_bundle_history,
)
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, UserFailure
from beam_runner_storage.journal.journal import Journal
from rig import Rig
from small_jobs import DONE, LOOP_BYTES, rig_of, running

from beam_runner_driver.reports.story import reconstruct_bundle_history

FAILURE = UserFailure("see", "ValueError: no", "Traceback", "'a'")


def journal_of(rig: Rig) -> Journal:
    journal: Journal = rig.journal
    return journal


def kinds(found: BundleHistory) -> list[HistoryEventKind]:
    return [step.kind for step in found.happened]


def test_bundle_history_of_committed_bundle_has_its_lane_and_data(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    number = order.bundle.number
    before = reconstruct_bundle_history(journal_of(rig), number)
    assert before.status is BundleStatus.OPEN
    assert kinds(before) == [HistoryEventKind.PLANNED]
    (read,) = before.happened[0].reads
    assert (read.name, read.elements) == ("input", 4)
    worker.pending.appendleft(order)
    rig.run()
    assert rig.ledger.end == DONE
    (first, last) = (reconstruct_bundle_history(journal_of(rig), n) for n in (0, number))
    assert kinds(first) == [HistoryEventKind.SNAPSHOT, HistoryEventKind.COMMITTED]
    assert [(one.name, one.elements) for one in first.happened[1].writes] == [("values", 4)]
    assert last.status is BundleStatus.COMMITTED
    committed = last.happened[-1]
    place = (committed.lane, committed.host, committed.pid)
    assert place == (0, worker.hello.host, worker.hello.pid)
    assert last.steps == ("the see step",)


def test_bundle_history_of_failed_attempt_has_error_step_and_lane(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    rig.coordinator.handle_message(
        worker, BundleFailure(Attempt.from_bundle(order.bundle), FAILURE)
    )
    rig.coordinator.run_round()
    found = reconstruct_bundle_history(journal_of(rig), order.bundle.number)
    failed = found.happened[1]
    assert failed.kind is HistoryEventKind.FAILED
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.step) == (FailureCause.USER_CODE, "see")
    assert (failed.lane, failed.pid) == (0, worker.hello.pid)
    assert found.status is BundleStatus.OPEN
    text = "\n".join(render_bundle_history(found))
    assert "attempt 1 failed on lane 0 by process" in text
    assert "at 'see': ValueError: no, at the element 'a'" in text


def test_bundle_history_of_lost_attempt_names_process_and_next_attempt(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    rig.lose(worker)
    rig.run()
    found = reconstruct_bundle_history(journal_of(rig), order.bundle.number)
    assert kinds(found) == [
        HistoryEventKind.PLANNED,
        HistoryEventKind.FAILED,
        HistoryEventKind.RETRIED,
        HistoryEventKind.COMMITTED,
    ]
    lost, again = found.happened[1:3]
    assert (lost.host, lost.pid) == (worker.hello.host, worker.hello.pid)
    assert lost.failure is not None
    assert lost.failure.kind is FailureCause.LOST_PROCESS
    assert again.attempt == 2
    assert [one.entry for one in found.happened] == sorted(one.entry for one in found.happened)


def test_bundle_history_of_bundle_in_scheduler_loop_names_its_lane(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.run()
    assert rig.ledger.end == DONE
    found = reconstruct_bundle_history(journal_of(rig), 1)
    assert found.status is BundleStatus.COMMITTED
    assert found.happened[-1].lane == 0


def test_bundle_history_of_unknown_bundle_names_last_bundle(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.run()
    last = rig.ledger.next_bundle - 1
    found = reconstruct_bundle_history(journal_of(rig), last + 1)
    assert found.status is BundleStatus.UNKNOWN
    assert render_bundle_history(found) == [
        f"the job has no bundle {last + 1}: the last one is bundle {last}"
    ]
    assert reconstruct_bundle_history(journal_of(rig), -1).status is BundleStatus.UNKNOWN


def test_bundle_history_of_bundle_committed_before_snapshot_is_not_available(
    tmp_path: Path,
) -> None:
    rig = rig_of(tmp_path)
    rig.run()
    journal = journal_of(rig)
    journal.store_snapshot(rig.ledger.encode_snapshot())
    found = reconstruct_bundle_history(journal, 0)
    assert found.status is BundleStatus.COMPACTED
    assert found.first_entry > 0
    (line,) = render_bundle_history(found)
    assert f"ended before entry {found.first_entry} of the journal" in line


def test_bundle_history_of_bundle_open_at_snapshot_starts_at_snapshot(tmp_path: Path) -> None:
    rig, _, order = running(tmp_path)
    journal = journal_of(rig)
    journal.store_snapshot(rig.ledger.encode_snapshot())
    found = reconstruct_bundle_history(journal, order.bundle.number)
    assert found.status is BundleStatus.OPEN
    assert kinds(found) == [HistoryEventKind.SNAPSHOT]
    assert found.happened[0].reads


def test_bundle_history_without_journal_reports_missing_journal(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    journal = journal_of(rig)
    journal.delete_journal()
    found = reconstruct_bundle_history(journal, 0)
    assert found.status is BundleStatus.NO_JOURNAL
    assert "--keep-failed-streams" in render_bundle_history(found)[0]
