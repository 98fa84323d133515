"""Tests of reports about a running job."""

from __future__ import annotations

from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.events import BundleDone, Drain, Output, Residual, Start
from beam_runner_engine.scheduler.pending_input import measure_pending_input
from beam_runner_engine.scheduler.reports import StageReport
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    GraphSpec,
    Limits,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .samples import data

JOB = GraphSpec(
    (
        StageSpec("read", ("root",), ("read.out",), splittable=True),
        StageSpec("count", ("read.out",), ("count.out",), kind=StageKind.STATEFUL),
        StageSpec("write", ("count.out",)),
    ),
    ("root",),
)


def running() -> Scheduler:
    """Returns a scheduler in which `read` waits to resume, `count` waits for timers in two shards,
    and `write` waits for `count`.
    """
    scheduler = Scheduler(JOB)
    scheduler.handle_event(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    outputs = tuple(Output("read.out", data(f"d{shard}", 1, shard)) for shard in (0, 1))
    residual = Residual(data("rest", MIN_TIMESTAMP), delay=50, watermark=5)
    scheduler.handle_event(BundleDone(0, 1, outputs, (residual,)))
    zero, one = (bundle.number for bundle in scheduler.open_bundles)
    scheduler.handle_event(BundleDone(zero, 1, summary=ShardSummary({3: 1}, next_event_timer=9)))
    scheduler.handle_event(
        BundleDone(one, 1, summary=ShardSummary({4: 1}, next_processing_timer=70))
    )
    return scheduler


def test_listed_waits_include_every_incomplete_stage() -> None:
    assert running().list_wait_reasons() == (
        Wait(WaitKind.RESUMPTION, "read", count=1),
        Wait(WaitKind.WATERMARK, "count", shard=0, until=9, watermark=5),
        Wait(WaitKind.TIMER, "count", shard=1, until=70),
        Wait(WaitKind.UPSTREAM, "write", collection="count.out", watermark=3),
    )


def test_stage_with_running_bundles_reports_their_number() -> None:
    scheduler = running()
    scheduler.handle_event(Drain())
    assert scheduler.list_wait_reasons()[0] == Wait(WaitKind.BUNDLES, "read", count=1)


def test_stage_without_an_input_watermark_reports_the_minimum() -> None:
    wait = Wait(WaitKind.UPSTREAM, "read", collection="root", watermark=MIN_TIMESTAMP)
    assert Scheduler(JOB).list_wait_reasons()[0] == wait


def test_watermark_hold_without_a_timer_fails_the_job_as_stuck() -> None:
    scheduler = Scheduler(JOB)
    scheduler.handle_event(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    scheduler.handle_event(BundleDone(0, 1, (Output("read.out", data("d", 1, 0)),)))
    commands = scheduler.handle_event(BundleDone(1, 1, summary=ShardSummary({3: 1})))
    (end,) = (command for command in commands if isinstance(command, FailJob))
    assert end.kind is JobFailureKind.STUCK
    assert Wait(WaitKind.HOLD, "count", shard=0, until=3) in scheduler.list_wait_reasons()


def test_stage_report_counts_the_backlog() -> None:
    scheduler = Scheduler(JOB, Limits(bundles_per_stage=1))
    roots = tuple(Output("root", data(name)) for name in "abc")
    scheduler.handle_event(Start(roots=roots))
    residuals = (Residual(data("r")), Residual(data("later"), delay=5))
    scheduler.handle_event(BundleDone(0, 1, residuals=residuals))
    assert scheduler.create_stage_report("read") == StageReport(
        stage="read",
        upstream_watermark=MAX_TIMESTAMP,
        input_watermark=0,
        output_watermark=0,
        waiting=0,
        waiting_bytes=0,
        blocked=0,
        delayed=1,
        open_bundles=1,
        complete=False,
    )


def test_pending_input_waits_for_bundle_or_side_input() -> None:
    graph = GraphSpec(
        (
            StageSpec("slow", ("root",), ("side",)),
            StageSpec("join", ("main",), side_inputs=(SideInputSpec("rates", "side"),)),
            StageSpec("keyed", ("main",), kind=StageKind.STATEFUL),
        ),
        ("root", "main"),
    )
    scheduler = Scheduler(graph)
    roots = (Output("root", data("r")), *(Output("main", data(n, 1, 0)) for n in "ab"))
    scheduler.handle_event(Start(roots=roots))
    pending = measure_pending_input(scheduler.state, {})
    assert {name: one.elements for name, one in pending.items()} == {
        "slow": 1,
        "join": 2,
        "keyed": 2,
    }
    assert pending["keyed"].size == 20
