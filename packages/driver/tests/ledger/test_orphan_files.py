"""Tests of litter: only files of failed attempts are deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import WorkerHello
from beam_runner_storage.stores.spec import StoreSpec
from clocks import Clock, clock_of

from beam_runner_driver.ledger import orphan_files as module
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.orphan_files import QUIET_SECONDS, OrphanFiles
from beam_runner_driver.ledger.settings import JobSettings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(module, monkeypatch)


def orphan_files(folder: Path, epoch: int, generation: int = 0) -> OrphanFiles:
    files = JobFolder(StoreSpec(str(folder)))
    return OrphanFiles(JobSettings(files, epoch, 2, 8, generation=generation))


KEPT = ("7-12-1-0.arrow", "7-12-20.arrow", "6-12-2-0.arrow", "7-1-12-2.arrow", "7-loop40-1-1")
OF_THE_ATTEMPT = ("7-12-2-0.arrow", "7-12-2-1.arrow", "7-12-2", "7-12-2-merged", "7-loop3-12-2")
OF_THE_LOOP = ("7-loop4-9-1-0.arrow", "7-loop4-state-0", "7-loop4-8-1")


def test_orphan_files_of_failed_attempts_are_deleted_and_other_files_stay(
    tmp_path: Path, clock: Clock
) -> None:
    for name in (*KEPT, *OF_THE_ATTEMPT, *OF_THE_LOOP):
        (tmp_path / name).touch()
    litter = orphan_files(tmp_path, 7)
    litter.schedule_attempt_files(Attempt(12, 2))
    litter.schedule_loop_files(4)
    litter.delete_due_files(list)
    assert len(list(tmp_path.iterdir())) == len(KEPT) + len(OF_THE_ATTEMPT) + len(OF_THE_LOOP)
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    assert {path.name for path in tmp_path.iterdir()} == set(KEPT)


def test_orphan_file_deletion_preserves_files_committed_by_section(
    tmp_path: Path, clock: Clock
) -> None:
    committed, lost = "7-3-1-0-5-101-2-0.arrow", "7-3-1-0-5-99-2-0.arrow"
    for name in (committed, lost):
        (tmp_path / name).touch()
    litter = orphan_files(tmp_path, 7)
    litter.schedule_section_files(Attempt(3, 1))
    clock.now += QUIET_SECONDS
    litter.delete_due_files(lambda: [committed])
    assert [path.name for path in tmp_path.iterdir()] == [committed]


def test_orphan_file_that_is_already_missing_raises_no_error(tmp_path: Path, clock: Clock) -> None:
    litter = orphan_files(tmp_path, 1)
    litter.schedule_attempt_files(Attempt(1, 1))
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    litter.delete_due_files(list)
    assert list(tmp_path.iterdir()) == []


def test_orphan_folders_of_exited_processes_are_deleted(tmp_path: Path, clock: Clock) -> None:
    one, other = WorkerHello("job", "here", 1), WorkerHello("job", "here", 11)
    for hello in (one, other):
        (tmp_path / hello.folder / "staged").mkdir(parents=True)
    litter = orphan_files(tmp_path, 1)
    litter.schedule_process_folder(one)
    litter.delete_due_files(list)
    assert (tmp_path / one.folder).exists()
    clock.now += QUIET_SECONDS
    litter.delete_due_files(list)
    assert [path.name for path in tmp_path.iterdir()] == [other.folder]


def test_orphan_file_deletion_preserves_files_committed_by_lost_loop(
    tmp_path: Path, clock: Clock
) -> None:
    for name in OF_THE_LOOP:
        (tmp_path / name).touch()
    litter = orphan_files(tmp_path, 7)
    litter.schedule_loop_files(4)
    clock.now += QUIET_SECONDS
    litter.delete_due_files(lambda: OF_THE_LOOP[:2])
    assert {path.name for path in tmp_path.iterdir()} == set(OF_THE_LOOP[:2])


def test_orphan_files_of_replaced_jobs_are_deleted(tmp_path: Path, clock: Clock) -> None:
    earlier = ("7-12-1-0.arrow", "7-loop2-state-0", "7g1-loop2-4-1", "7g2-4-1.arrow")
    needed = ("7-11-1-0.arrow", "7g1-loop1-state-0")
    own = ("7g3-loop2-4-1", "7g3-13-1.arrow", "6-1-1.arrow", "8g1-1-1", "starts")
    for name in (*earlier, *needed, *own):
        (tmp_path / name).touch()
    orphans = orphan_files(tmp_path, 7, generation=3)
    orphans.delete_due_files(lambda: needed)
    assert len(list(tmp_path.iterdir())) == len((*earlier, *needed, *own))
    clock.now += QUIET_SECONDS
    orphans.delete_due_files(lambda: needed)
    assert {path.name for path in tmp_path.iterdir()} == {*needed, *own}


def test_orphan_files_of_earlier_generation_differ_from_own_files(
    tmp_path: Path, clock: Clock
) -> None:
    for name in ("7-loop1-2-1", "7g1-loop1-2-1"):
        (tmp_path / name).touch()
    orphans = orphan_files(tmp_path, 7)
    orphans.schedule_loop_files(1)
    clock.now += QUIET_SECONDS
    orphans.delete_due_files(list)
    assert [path.name for path in tmp_path.iterdir()] == ["7g1-loop1-2-1"]
