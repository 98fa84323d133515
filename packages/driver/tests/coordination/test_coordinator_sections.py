"""Tests of the coordinator with sections (stages that run as one Spark job): committed once,
retried, refused, and continued by the next server.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy
from beam_runner_model.buffers import BufferKind
from beam_runner_model.observation import BundleProcessKind
from beam_runner_model.waits import WaitKind
from beam_runner_runtime.channel.attempts import Attempt, UserFailure
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    BundleReply,
    CloseLane,
    RunBundle,
    RunLoop,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections import running as sections_module
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from fake_processes import FakeProcesses
from rig import NO_LOOP, Rig
from sample_buffers import buffer
from section_doubles import EXPECTED, PLAN, TRANSFORMS, broken, refused
from servers import Reporter
from small_plans import plan_of, stage
from worker_doubles import attempts_given, seen_in

from beam_runner_driver.ledger import orphan_files as litter_module
from beam_runner_driver.reports import condition as condition_module
from beam_runner_driver.reports.condition import STILL_SECONDS, JobMonitor
from beam_runner_driver.reports.observing import JobSnapshots
from beam_runner_driver.reports.reporting import format_job_failure

LOOP_BYTES = 1 << 20
DONE = FinishJob(Outcome.DONE)
BOTH = pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])


def rig_of(place: Path, **more: Any) -> Rig:
    rig = Rig(place, PLAN, TRANSFORMS, section_policy=DefaultSectionPolicy(), **more)
    rig.begin()
    return rig


def finish(rig: Rig) -> None:
    rig.run()
    assert rig.ledger.end == DONE
    assert seen_in(rig.ledger.metrics.infos()) == EXPECTED


def committed(rig: Rig) -> list[int]:
    return [attempt.bundle for what, attempt in rig.log if what == "commit"]


def stages_on_lanes(rig: Rig) -> set[str]:
    orders = (order for worker in rig.workers for order in worker.history)
    return {order.bundle.stage for order in orders if isinstance(order, RunBundle)}


@BOTH
def test_section_is_one_bundle_followed_by_separate_bundles(
    tmp_path: Path, loop_bytes: int
) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    (order,) = rig.sections.history
    ((_, title, _),) = rig.sections.waiting
    assert [part.stage for part in order.bundle.parts] == ["read", "count"]
    assert title == "section of the read step to the count step, attempt 1"
    assert order.name == f"{rig.store.epoch}-{order.bundle.number}-1"
    assert rig.starting == [], "it needs no lane"
    finish(rig)
    assert len(rig.sections.history) == 1
    assert stages_on_lanes(rig).isdisjoint({"read", "count"})
    assert committed(rig).count(order.bundle.number) == 1
    assert {name: one.committed for name, one in rig.ledger.tallies.items()}["count"] == 1


def test_section_files_are_deleted_after_last_use(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    finish(rig)
    assert list(rig.ledger.list_needed_files()) == []


@BOTH
def test_refused_section_is_run_as_bundles(tmp_path: Path, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    rig.sections.answer = refused
    finish(rig)
    assert len(rig.sections.history) == 1, "the section is decided once"
    if loop_bytes == NO_LOOP:
        assert stages_on_lanes(rig) >= {"read", "count"}
    assert rig.ledger.tallies["read"].failed == 0
    assert rig.ledger.last_failure is None


def test_section_refused_after_user_code_ran_counts_as_failed_attempt(
    tmp_path: Path,
) -> None:
    rig = rig_of(tmp_path)
    rig.sections.answer = lambda order: attrs.evolve(refused(order), ran=True)
    finish(rig)
    assert [rig.ledger.tallies[stage].failed for stage in ("read", "count")] == [1, 1]
    assert rig.ledger.last_failure is not None
    assert rig.ledger.last_failure.cause == "a section is run as bundles instead: it has residuals"


@pytest.mark.parametrize("breaks", [1, 3, 4])
def test_section_with_external_failure_is_retried(tmp_path: Path, breaks: int) -> None:
    rig = rig_of(tmp_path)
    left = [breaks]

    def answer(order: RunBundle) -> SectionEnd | None:
        left[0] -= 1
        return broken(order) if left[0] >= 0 else None

    rig.sections.answer = answer
    if breaks < 4:
        finish(rig)
        assert [order.bundle.attempt for order in rig.sections.history] == list(
            range(1, breaks + 2)
        )
        assert rig.ledger.tallies["read"].retried == rig.ledger.tallies["count"].retried == breaks
        return
    rig.run()
    assert isinstance(rig.ledger.end, FailJob)
    said = format_job_failure(rig.ledger.end, rig.ledger.last_failure, PLAN)
    assert "failed 4 times" in said
    titles = [PLAN.stages[stage].spec.title for stage in ("read", "count")]
    assert f"section of {titles[0]} to {titles[1]}: Spark lost it" in said


def test_section_user_error_names_its_transform(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    failure = UserFailure("Outer/Inner", "ValueError: no", "Traceback of it")
    rig.sections.answer = lambda order: broken(order, failure)
    rig.run()
    assert isinstance(rig.ledger.end, FailJob)
    said = format_job_failure(rig.ledger.end, rig.ledger.last_failure, PLAN)
    assert said.startswith("ValueError: no [while running 'Outer/Inner']")
    assert len(rig.sections.history) == 1


def test_duplicate_or_late_section_reply_is_ignored(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    first = rig.sections.history[0]
    late = rig.sections.run(first)
    for _ in range(2):
        rig.coordinator.handle_section_end(broken(first))
        rig.coordinator.run_round()
    rig.coordinator.handle_section_end(late)
    rig.coordinator.handle_section_end(refused(first))
    rig.coordinator.run_round()
    assert rig.ledger.is_open(Attempt(first.bundle.number, 2))
    rig.sections.waiting.pop(0)
    finish(rig)


@pytest.mark.parametrize("attempt", [1, 2])
def test_open_section_is_retried_by_next_server(tmp_path: Path, attempt: int) -> None:
    rig = rig_of(tmp_path)
    order = rig.sections.history[0]
    if attempt == 2:
        rig.coordinator.handle_section_end(broken(order))
        rig.coordinator.run_round()
    rig.stop()
    after = rig_of(tmp_path)
    (again,) = after.sections.history
    assert (again.bundle.number, again.bundle.attempt) == (order.bundle.number, attempt + 1)
    assert again.bundle.parts == order.bundle.parts
    assert again.name != order.name, "the next server has another epoch"
    finish(after)


@pytest.mark.parametrize("how", ["committed", "refused"])
def test_next_server_reads_result_of_committed_section(tmp_path: Path, how: str) -> None:
    rig = rig_of(tmp_path)
    if how == "refused":
        rig.sections.answer = refused
    rig.sections.end_all()
    rig.coordinator.run_round()
    rig.stop()
    after = rig_of(tmp_path)
    assert after.sections.history == []
    finish(after)


def test_idle_lanes_close_immediately_when_section_opens(tmp_path: Path) -> None:
    """Spark doesn't preempt tasks."""
    rig = rig_of(tmp_path)
    rig.coordinator.lanes.queue_loop()
    rig.coordinator.lanes._loop_waits = False
    (number,) = rig.starting
    worker = rig.open_lane(number)
    rig.starting.clear()
    time.sleep(0.01)
    rig.coordinator.run_round()
    assert isinstance(worker.pending[0], CloseLane)
    assert attempts_given(worker) == []


def test_files_of_failed_section_attempt_are_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litter_module, "QUIET_SECONDS", 0.0)
    rig = rig_of(tmp_path)
    order = rig.sections.history[0]
    left = rig.folder / f"{order.name}-count-3-17"
    left.write_bytes(b"x")
    rig.coordinator.handle_section_end(refused(order))
    rig.coordinator.run_round()
    assert not left.exists()


def test_files_of_repeated_spark_tasks_are_deleted_after_section_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litter_module, "QUIET_SECONDS", 0.0)
    rig = rig_of(tmp_path)
    order = rig.sections.history[0]
    left = rig.folder / f"{order.name}-1-3-17-2-0.arrow"
    left.write_bytes(b"x")
    rig.coordinator.run_round()
    assert left.exists()
    rig.sections.end_all()
    rig.coordinator.run_round()
    assert not left.exists()
    assert set(rig.ledger.list_needed_files()) <= {path.name for path in rig.folder.iterdir()}


def test_section_opened_within_scheduler_loop_ends_loop(tmp_path: Path) -> None:
    plan = plan_of(
        [
            stage("first", None, {"out": "values"}),
            stage("read", "values", {"out": "pairs"}),
            stage("other", "values"),
            stage("count", "pairs", groups=True),
        ],
        [buffer("values", BufferKind.DEALT), buffer("pairs", BufferKind.GROUPED)],
    )
    transforms: Any = {
        "first": lambda _: {"out": [b"a1", b"a2"]},
        "read": lambda values: {"out": values},
    }
    policy = DefaultSectionPolicy()
    rig = Rig(tmp_path, plan, transforms, section_policy=policy, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.run()
    loops = [one for worker in rig.workers for one in worker.history if isinstance(one, RunLoop)]
    assert len(loops) == len(rig.sections.history) == 1
    assert rig.ledger.end == DONE
    assert seen_in(rig.ledger.metrics.infos()) == {"a1": 1, "a2": 1, "a=2": 1}


def test_metrics_of_running_section_combine_its_processes(tmp_path: Path) -> None:
    """The scheduler neither splits nor checkpoints the section, and doesn't get these metrics."""
    rig = rig_of(tmp_path)
    (order,) = rig.sections.history
    reply = rig.sections.run(order)
    assert isinstance(reply, BundleReply)
    once = seen_in(reply.metrics)
    for number in (1, 2, 2):
        link = WorkerLink(WorkerHello("job-1", "host", number))
        rig.coordinator.handle_message(link, BundleProgressed(order.attempt, 0.5, 1, reply.metrics))
    with patch.object(rig.coordinator.ledger, "apply_journal_entry") as applied:
        rig.coordinator.run_round()
    applied.assert_not_called()
    totals = rig.metrics.compute_totals()
    assert seen_in(totals.committed) == {}
    assert seen_in(totals.attempted) == {name: 2 * number for name, number in once.items()}
    finish(rig)
    assert seen_in(rig.metrics.compute_totals().attempted) == EXPECTED


def test_running_sections_are_shown_in_observations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections_module, "LOOK_SECONDS", 0.0)
    rig = rig_of(tmp_path)
    rig.sections.tasks = TaskCounts(3, 1, 4)
    rig.coordinator.run_round()
    observing = JobSnapshots(rig.plan, tuple, str)
    observing.take_snapshot(rig.coordinator, (), 0.0)
    (bundle,) = observing.get_latest_execution().bundles
    assert (bundle.stage, bundle.steps) == ("read", ("the read step", "the count step"))
    assert (bundle.host, bundle.fraction) == ("Spark", 0.75)
    assert bundle.where is BundleProcessKind.SECTION
    assert (bundle.tasks, bundle.tasks_done) == (4, 3)
    assert rig.ledger.list_oldest_opening_times().keys() == {"read", "count"}
    reporter = Reporter()
    condition = JobMonitor(rig.plan, reporter, FakeProcesses())
    later = rig.coordinator.moved + STILL_SECONDS + 1
    with patch.object(condition_module.time, "monotonic", lambda: later):
        condition.check_job(rig.ledger, rig.coordinator)
    assert len(reporter.messages) == 1
    (wait,) = (wait for wait in condition.waits if wait.kind is WaitKind.TASKS)
    assert (wait.steps, wait.count, wait.done) == (("the read step", "the count step"), 4, 3)
    finish(rig)
    observing.take_snapshot(rig.coordinator, (), 0.0)
    assert observing.get_latest_execution().bundles == ()
