"""Tests of running sections (Spark jobs of several stages): their slots in the cluster, their names
and their progress.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from beam_runner_driver.lanes import slots as slots_module
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_engine.scheduler.commands import Bundle, SectionStageInput
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind, SectionRefused
from beam_runner_storage.stores.spec import StoreSpec
from clocks import Clock, clock_of
from section_doubles import PLAN, FakeSections
from small_plans import bundle_of
from worker_doubles import harnesses

from beam_runner_runtime.channel.attempts import (
    Attempt,
    BundleFailure,
    FailedStep,
    SectionRefusal,
    UserFailure,
)
from beam_runner_runtime.channel.messages import JobWork, RunBundle
from beam_runner_runtime.sections import running as module
from beam_runner_runtime.sections.ends import TaskCounts
from beam_runner_runtime.sections.running import LOOK_SECONDS, SectionRunner


def section(number: int = 1, attempt: int = 1) -> Bundle:
    parts = tuple(SectionStageInput(name, (), (), 0) for name in ("read", "count", "end"))
    return bundle_of(number=number, attempt=attempt, stage="read", parts=parts)


class Running:
    """Sections of one job, and the slots of a cluster of four cores that another job uses."""

    def __init__(self, place: Path, width: int = 2) -> None:
        self.host = FakeSections(PLAN, harnesses(PLAN, {}), place)
        self.slots = ClusterSlots(4)
        self.other = JobSlots(self.slots, "other")
        for lane in range(4):
            self.other.record_requested_slot(lane)
            self.other.record_received_slot(lane)
        self.sections = SectionRunner(
            self.host,
            PLAN,
            lambda bundle: RunBundle(bundle, "name"),
            lambda: JobWork(PLAN, 2, StoreSpec(str(place))),
            lambda end: None,
            width,
            JobSlots(self.slots, "mine"),
        )

    def end(self, number: int) -> None:
        """Ends a section (a Spark job)."""
        self.sections.handle_end(SectionRefusal(Attempt(number, 1), "no"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock_of(slots_module, monkeypatch)
    return clock_of(module, monkeypatch)


def test_waiting_section_makes_other_jobs_release_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(slots_module, monkeypatch)
    running = Running(tmp_path)
    running.sections.start_sections([section()])
    assert running.other.free_slots == -2
    clock.now += 1
    assert running.other.must_release_slot
    running.end(1)
    assert running.other.free_slots == 0
    assert not running.other.must_release_slot


def test_section_counts_slots_as_used_when_spark_starts_tasks(tmp_path: Path, clock: Clock) -> None:
    running = Running(tmp_path)
    running.sections.start_sections([section(1), section(2)])
    held = running.slots.places._held
    running.host.tasks = TaskCounts(0, 3, 9)
    clock.now += LOOK_SECONDS
    running.sections.poll_progress()
    assert len(held["mine"]) == 3
    for number in (1, 2):
        running.end(number)
    assert not held["mine"]
    assert not running.sections.has_sections


def test_running_section_progress_is_polled_periodically(tmp_path: Path, clock: Clock) -> None:
    running = Running(tmp_path)
    clock.now += LOOK_SECONDS
    assert not running.sections.poll_progress(), "no section runs"
    running.sections.start_sections([section()])
    running.host.tasks = TaskCounts(1, 2, 9)
    assert running.sections.poll_progress()
    assert (running.sections.tasks.done, running.sections.tasks.known) == (1, 9)
    running.host.tasks = TaskCounts(2, 2, 9)
    assert not running.sections.poll_progress(), "it has just looked"
    clock.now += LOOK_SECONDS
    assert running.sections.poll_progress()
    clock.now += LOOK_SECONDS
    assert not running.sections.poll_progress(), "the section made no progress"
    (one,) = running.sections.list_running()
    assert one.changed == clock.now - LOOK_SECONDS


@pytest.mark.parametrize(
    ("end", "entry"),
    [
        (SectionRefusal(Attempt(1, 2), "why"), SectionRefused(1, 2, "why")),
        (SectionRefusal(Attempt(1, 2), "why", ran=True), SectionRefused(1, 2, "why", ran=True)),
        (
            BundleFailure(Attempt(1, 2), None, "lost"),
            BundleFailed(
                1, 2, "section of the read step to the end step: lost", FailureKind.OUTSIDE
            ),
        ),
        (
            BundleFailure(Attempt(1, 2), UserFailure("Count", "no", "")),
            BundleFailed(
                1,
                2,
                "no [while running 'Count']",
                FailureKind.USER,
                detail=FailedStep("Count", "no"),
            ),
        ),
    ],
    ids=["refused", "refused after it ran", "broken", "of user code"],
)
def test_section_end_becomes_journal_entry(tmp_path: Path, end: Any, entry: Any) -> None:
    running = Running(tmp_path)
    running.sections.start_sections([section(1, 2)])
    assert running.sections.handle_end(end) == entry
    user_code_ran = not isinstance(end, SectionRefusal) or end.ran
    assert running.sections.begun == ({"read": 1, "count": 1, "end": 1} if user_code_ran else {})


def test_section_is_named_after_first_and_last_stage(tmp_path: Path) -> None:
    name = Running(tmp_path).sections.format_title(section())
    assert name == "section of the read step to the end step"
