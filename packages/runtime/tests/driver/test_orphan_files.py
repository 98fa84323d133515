"""Tests of litter: only files of failed attempts are deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_storage.stores.spec import StoreSpec
from clocks import Clock, clock_of

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import WorkerHello
from beam_runner_runtime.driver import orphan_files as module
from beam_runner_runtime.driver.job_folder import JobFolder
from beam_runner_runtime.driver.orphan_files import QUIET_SECONDS, OrphanFiles


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(module, monkeypatch)


KEPT = ("7-12-1-0.arrow", "7-12-20.arrow", "6-12-2-0.arrow", "7-1-12-2.arrow", "7-loop40-1-1")
OF_THE_ATTEMPT = ("7-12-2-0.arrow", "7-12-2-1.arrow", "7-12-2", "7-12-2-merged", "7-loop3-12-2")
OF_THE_LOOP = ("7-loop4-9-1-0.arrow", "7-loop4-state-0", "7-loop4-8-1")


def test_litter_of_failed_attempts_is_deleted_and_other_files_stay(
    tmp_path: Path, clock: Clock
) -> None:
    for name in (*KEPT, *OF_THE_ATTEMPT, *OF_THE_LOOP):
        (tmp_path / name).touch()
    litter = OrphanFiles(JobFolder(StoreSpec(str(tmp_path))), 7)
    litter.schedule_attempt_files(Attempt(12, 2))
    litter.schedule_loop_files(4)
    litter.delete_due_files(list)
    assert len(list(tmp_path.iterdir())) == len(KEPT) + len(OF_THE_ATTEMPT) + len(OF_THE_LOOP)
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    assert {path.name for path in tmp_path.iterdir()} == set(KEPT)


def test_litter_sweep_preserves_files_committed_by_section(tmp_path: Path, clock: Clock) -> None:
    committed, lost = "7-3-1-0-5-101-2-0.arrow", "7-3-1-0-5-99-2-0.arrow"
    for name in (committed, lost):
        (tmp_path / name).touch()
    litter = OrphanFiles(JobFolder(StoreSpec(str(tmp_path))), 7)
    litter.schedule_section_files(Attempt(3, 1))
    clock.now += QUIET_SECONDS
    litter.delete_due_files(lambda: [committed])
    assert [path.name for path in tmp_path.iterdir()] == [committed]


def test_litter_that_is_missing_is_no_error(tmp_path: Path, clock: Clock) -> None:
    litter = OrphanFiles(JobFolder(StoreSpec(str(tmp_path))), 1)
    litter.schedule_attempt_files(Attempt(1, 1))
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    litter.delete_due_files(list)
    assert list(tmp_path.iterdir()) == []


def test_litter_folders_of_exited_processes_are_deleted(tmp_path: Path, clock: Clock) -> None:
    one, other = WorkerHello("job", "here", 1), WorkerHello("job", "here", 11)
    for hello in (one, other):
        (tmp_path / hello.folder / "staged").mkdir(parents=True)
    litter = OrphanFiles(JobFolder(StoreSpec(str(tmp_path))), 1)
    litter.schedule_process_folder(one)
    litter.delete_due_files(list)
    assert (tmp_path / one.folder).exists()
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    assert [path.name for path in tmp_path.iterdir()] == [other.folder]


def test_litter_sweep_preserves_files_committed_by_lost_loop(tmp_path: Path, clock: Clock) -> None:
    for name in OF_THE_LOOP:
        (tmp_path / name).touch()
    litter = OrphanFiles(JobFolder(StoreSpec(str(tmp_path))), 7)
    litter.schedule_loop_files(4)
    clock.now += QUIET_SECONDS
    litter.delete_due_files(lambda: OF_THE_LOOP[:2])
    assert {path.name for path in tmp_path.iterdir()} == set(OF_THE_LOOP[:2])
