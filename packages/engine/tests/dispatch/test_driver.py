"""Tests of the job driver: it executes the scheduler's commands in the right order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    FailJob,
    FinalizeBundles,
    FinishJob,
    OpenBundles,
    Outcome,
    ReleaseState,
    RequestTick,
    SplitBundle,
)
from beam_runner_engine.scheduler.events import Tick

from .bundles import bundle


@attrs.define
class RecordingHost:
    """Host (program that embeds the engine) that records all calls; `answers` holds the commands of
    the next rounds.
    """

    answers: list[list[Command]] = attrs.field(factory=list)
    next_wake: int | None = None
    handled: list[Any] = attrs.field(factory=list)
    done: list[Any] = attrs.field(factory=list)

    def record_journal_entries(self, entries: Sequence[str | Tick]) -> list[Command]:
        self.handled.append(list(entries))
        return self.answers.pop(0) if self.answers else []

    def open_bundles(self, bundles: Sequence[Bundle]) -> None:
        self.done.append(("open", [(one.number, one.attempt) for one in bundles]))

    def split_bundle(self, bundle: int, attempt: int, fraction: float) -> None:
        self.done.append(("split", bundle, attempt, fraction))

    def cancel_bundles(self, bundles: Sequence[tuple[int, int]]) -> None:
        self.done.append(("stop", list(bundles)))

    def finalize_bundles(self, bundles: Sequence[int]) -> None:
        self.done.append(("finalize", list(bundles)))


def test_job_driver_records_one_clock_tick_per_time_before_its_entries() -> None:
    host = RecordingHost()
    driver: JobDriver[str] = JobDriver(host)
    driver.record_journal_entries(["a", "b"], 10)
    driver.record_journal_entries(["c"], 10)
    driver.record_journal_entries(["d"], 9)
    driver.record_journal_entries(["e"], 11)
    assert host.handled == [[Tick(10), "a", "b"], ["c"], ["d"], [Tick(11), "e"]]


def test_job_driver_without_entries_records_a_due_clock_tick() -> None:
    host = RecordingHost()
    driver: JobDriver[str] = JobDriver(host)
    assert driver.compute_wake_delay(10) is None
    driver.record_journal_entries([], 10)
    host.next_wake = 15
    assert driver.compute_wake_delay(10) == 5
    driver.record_journal_entries([], 14)
    assert host.handled == []
    assert driver.compute_wake_delay(16) == 0
    driver.record_journal_entries([], 16)
    assert host.handled == [[Tick(16)]]


def test_job_driver_opens_bundles_after_other_commands() -> None:
    commands: list[Command] = [
        OpenBundles("stage", (bundle(1), bundle(2))),
        SplitBundle(7, 1, 0.5),
        RequestTick(3),
        FinalizeBundles((5, 6)),
        ReleaseState("stage"),
        OpenBundles("other", (bundle(3, attempt=2),)),
    ]
    host = RecordingHost([commands])
    driver: JobDriver[str] = JobDriver(host)
    driver.record_journal_entries(["a"], 1)
    assert host.done == [
        ("split", 7, 1, 0.5),
        ("finalize", [5, 6]),
        ("open", [(1, 1), (2, 1), (3, 2)]),
    ]
    assert not driver.has_ended


@pytest.mark.parametrize("end", [FinishJob(Outcome.CANCELLED), FailJob("why")])
def test_job_driver_does_not_open_a_bundle_cancelled_in_the_same_round(end: Command) -> None:
    opened = OpenBundles("stage", (bundle(1, attempt=2), bundle(2)))
    host = RecordingHost([[opened, CancelBundles(((1, 2), (2, 1), (3, 1))), end]])
    driver: JobDriver[str] = JobDriver(host)
    driver.record_journal_entries(["a"], 1)
    assert host.done == [("stop", [(1, 2), (2, 1), (3, 1)])]
    assert driver.has_ended
