"""Tests of the decisions of a switch: what each event and each report leads to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from beam_runner_engine.scheduler.refusals import Refusal, RefusalKind, TransferRefused
from beam_runner_model.updates import Finding, FindingReason, FindingVerdict, UpdateReport
from beam_runner_storage.journal.errors import JournalError

from beam_runner_driver.job import switch as module
from beam_runner_driver.job.job_events import (
    CancelRequested,
    DrainRequested,
    LaneEnded,
    SuspendRequested,
    UpdateRequested,
)
from beam_runner_driver.job.switch import JobSwitch
from beam_runner_driver.updates.job_update import JobUpdate, UpdateOutcome

KEPT = UpdateReport((Finding(FindingVerdict.KEPT, FindingReason.SAME, step="a"),))
WAITS = UpdateReport(
    (Finding(FindingVerdict.REFUSED, FindingReason.REMOVED, step="a", passes=True),)
)
REFUSED = UpdateReport((Finding(FindingVerdict.REFUSED, FindingReason.REMOVED, step="a"),))


class OldJob:
    """A running job whose reports, holds and journal a test controls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports = [KEPT]
        self.holds: list[tuple[str, ...]] = []
        self.is_idle = False
        self.error: Exception | None = None
        self.committed: list[bytes] = []
        self.next: Any = SimpleNamespace(encode_snapshot=lambda: b"next")
        ledger: Any = SimpleNamespace(plan=None)
        self.switch = JobSwitch(ledger, self, self)  # type: ignore[arg-type]
        monkeypatch.setattr(module, "list_pausable_stages", lambda plan: ("source",))
        monkeypatch.setattr(module, "compare_with_ledger", self.compare)
        monkeypatch.setattr(module, "make_next_ledger", self.transfer)

    def compare(self, ledger: Any, job: Any) -> Any:
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        return SimpleNamespace(report=report, correspondence=None)

    def transfer(self, ledger: Any, job: Any, correspondence: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.next

    def pause_stages(self, stages: tuple[str, ...]) -> None:
        self.holds.append(stages)

    def replace_by_successor(self, journal: Any, snapshot: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.committed.append(snapshot)


class Update:
    """A request, with the reports that the new job receives."""

    def __init__(self, quiet_seconds: float = 60.0, *, is_check: bool = False) -> None:
        self.reports: list[UpdateReport] = []
        self.replaced: list[UpdateReport] = []
        parts: Any = (None, None)
        self.request = JobUpdate(
            "new", *parts, quiet_seconds, is_check, self.reports.append, self.replaced.append
        )

    @property
    def outcome(self) -> UpdateOutcome | None:
        answer = self.request.answer
        return answer.result().outcome if answer.done() else None


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> OldJob:
    return OldJob(monkeypatch)


def begin(old: OldJob, update: Update) -> None:
    old.switch.handle_event(UpdateRequested(update.request))
    old.switch.advance()


def test_update_replaces_job_without_open_bundles(old: OldJob) -> None:
    update = Update()
    begin(old, update)
    assert (old.holds, update.outcome, old.switch.is_decided) == ([("source",)], None, False)
    assert 0 < (old.switch.seconds_left or 0) <= 60
    old.is_idle = True
    old.switch.advance()
    assert old.switch.is_decided
    assert update.outcome is None, "the old job still has lanes"
    assert old.switch.commit()
    assert (old.committed, update.replaced) == ([b"next"], [KEPT])
    old.switch.close()
    answer = update.request.answer.result()
    assert (answer.outcome, answer.ledger) == (UpdateOutcome.REPLACED, old.next)


def test_update_replaces_job_with_open_bundles_after_time_limit(old: OldJob) -> None:
    update = Update(quiet_seconds=0.0)
    begin(old, update)
    assert old.switch.is_decided


def test_refused_update_pauses_no_sources(old: OldJob) -> None:
    update = Update()
    old.reports = [REFUSED]
    begin(old, update)
    assert update.outcome is UpdateOutcome.REFUSED
    assert update.reports == [REFUSED]
    assert set(old.holds) <= {()}
    assert not old.switch.is_decided


def test_update_check_pauses_no_sources(old: OldJob) -> None:
    update = Update(is_check=True)
    old.is_idle = True
    begin(old, update)
    assert update.outcome is UpdateOutcome.CHECKED
    assert set(old.holds) <= {()}
    assert not old.switch.is_decided


@pytest.mark.parametrize(("after", "is_decided"), [(KEPT, True), (WAITS, False), (REFUSED, False)])
def test_update_compares_plans_again_when_job_has_no_open_bundles(
    old: OldJob, after: UpdateReport, is_decided: bool
) -> None:
    update = Update()
    old.reports = [WAITS, after]
    begin(old, update)
    assert update.outcome is None
    old.is_idle = True
    old.switch.advance()
    assert old.switch.is_decided is is_decided
    assert update.outcome is (None if is_decided else UpdateOutcome.REFUSED)
    assert old.holds == ([("source",)] if is_decided else [("source",), ()])


@pytest.mark.parametrize(
    "error", [TransferRefused((Refusal(RefusalKind.STUCK),)), RuntimeError("broken")]
)
def test_update_with_failed_state_transfer_resumes_sources(old: OldJob, error: Exception) -> None:
    update = Update(quiet_seconds=0.0)
    old.error = error
    begin(old, update)
    assert update.outcome is UpdateOutcome.REFUSED
    assert str(error) in update.request.answer.result().reason
    assert old.holds[-1] == ()
    again = Update(quiet_seconds=0.0)
    old.error = None
    begin(old, again)
    assert old.switch.is_decided


@pytest.mark.parametrize("event", [CancelRequested(), DrainRequested(), SuspendRequested()])
def test_cancel_request_for_running_job_interrupts_update(old: OldJob, event: Any) -> None:
    update = Update()
    begin(old, update)
    old.switch.handle_event(LaneEnded(1, ""))
    assert update.outcome is None
    old.switch.handle_event(event)
    assert update.outcome is UpdateOutcome.INTERRUPTED
    assert old.holds[-1] == ()


def test_cancel_request_after_decision_does_not_interrupt_update(old: OldJob) -> None:
    update = Update(quiet_seconds=0.0)
    begin(old, update)
    old.switch.handle_event(CancelRequested())
    assert old.switch.is_decided
    assert update.outcome is None


def test_cancelled_update_resumes_sources(old: OldJob) -> None:
    update = Update()
    begin(old, update)
    update.request.withdrawn.set()
    old.switch.advance()
    assert update.outcome is UpdateOutcome.INTERRUPTED
    assert old.holds[-1] == ()


def test_second_update_of_job_is_refused_and_first_continues(old: OldJob) -> None:
    first, second = Update(), Update()
    begin(old, first)
    begin(old, second)
    assert second.outcome is UpdateOutcome.REFUSED
    assert first.outcome is None


def test_update_with_unknown_commit_outcome_starts_no_new_job(old: OldJob) -> None:
    update = Update(quiet_seconds=0.0)
    begin(old, update)
    old.error = JournalError("unknown")
    assert not old.switch.commit()
    old.switch.close()
    answer = update.request.answer.result()
    assert (answer.outcome, answer.ledger) == (UpdateOutcome.UNKNOWN, None)
    assert update.replaced == []


def test_end_of_running_job_interrupts_update(old: OldJob) -> None:
    update = Update()
    begin(old, update)
    old.switch.close()
    assert update.outcome is UpdateOutcome.INTERRUPTED
