"""Tests that a job fails if a watermark overtakes data, and its server checks watermarks."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_engine.scheduler.commands import Command
from beam_runner_engine.scheduler.events import Event
from beam_runner_engine.scheduler.overtaking import LateDataViolation, WatermarkChecker
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_storage.stores.spec import StoreSpec
from ledger_jobs import CHAIN, Job, rows
from small_jobs import DONE, EXPECTED, rig_of, seen, text

from beam_runner_driver.coordination.watermark_checks import (
    VARIABLE,
    are_watermark_checks_enabled,
    find_data_passed_by_watermark,
)
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.settings import JobSettings


class Finding(WatermarkChecker):
    """Says once that it has found something."""

    def handle_event(self, scheduler: Scheduler, event: Event) -> tuple[Command, ...]:
        commands = super().handle_event(scheduler, event)
        if self.found is None:
            self.found = [LateDataViolation("see", "values", 5, 12)]
        return commands

    found: list[LateDataViolation] | None = None

    def take_violations(self) -> list[LateDataViolation]:
        found, self.found = self.found or [], []
        return found


def test_watermark_check_fails_job_with_names_and_timestamps_of_late_data(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.ledger.watch = Finding()
    rig.run()
    assert "'the see step' has the watermark 12 ms" in text(rig)
    assert "reads an element with timestamp 5 ms from 'values'" in text(rig)
    assert "written by 'the read step'" in text(rig)


def test_watermark_check_accepts_job_without_late_data(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.ledger.watch = WatermarkChecker()
    rig.run()
    assert rig.ledger.end == DONE and seen(rig) == EXPECTED


def test_ledger_without_watermark_checks_reports_no_violation() -> None:
    job = Job(CHAIN)
    (read,) = job.open("read")
    job.commit(read, rows("a", 0))
    assert find_data_passed_by_watermark(job.ledger) == ""


def test_workers_get_watermark_check_setting(tmp_path: Path) -> None:
    for checks in (False, True):
        settings = JobSettings(
            JobFolder(StoreSpec(str(tmp_path))), 1, 2, 8, checks_watermarks=checks
        )
        assert settings.make_job_work(CHAIN, 4, 0).checks_watermarks is checks


def test_server_checks_watermarks_if_enabled_by_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not are_watermark_checks_enabled()
    monkeypatch.setenv(VARIABLE, "")
    assert not are_watermark_checks_enabled()
    monkeypatch.setenv(VARIABLE, "1")
    assert are_watermark_checks_enabled()
