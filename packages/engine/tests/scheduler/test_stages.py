"""Tests of single stages: data, watermarks, shards and wake-ups."""

from __future__ import annotations

from typing import Any

import pytest
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_engine.scheduler.commands import (
    FailJob,
    FinalizeBundles,
    FinishJob,
    OpenBundles,
    Outcome,
    ReleaseData,
    ReleaseState,
    RequestTick,
)
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual, Start, Tick
from beam_runner_engine.scheduler.reports import list_wait_reasons
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageKind, StageSpec

from .samples import data, only, refs

READ = StageSpec("read", ("root",), ("read.out",), splittable=True)
COUNT = StageSpec("count", ("read.out",), ("count.out",), kind=StageKind.STATEFUL)
WRITE = StageSpec("write", ("count.out",))
JOB = GraphSpec((READ, COUNT, WRITE), ("root",))


def started(now: int = 0, limits: Limits | None = None) -> Scheduler:
    scheduler = Scheduler(JOB, limits)
    opened = only(
        scheduler.handle_event(Start(now, (Output("root", data("impulse", MIN_TIMESTAMP)),))),
        OpenBundles,
    )
    assert refs(opened.bundles[0]) == ["impulse"]
    return scheduler


def reading(scheduler: Scheduler) -> int:
    """Returns the number of the source's open bundle."""
    return next(b.number for b in scheduler.open_bundles if b.stage == "read")


def read_done(scheduler: Scheduler, *outputs: object, watermark: int) -> tuple[Any, ...]:
    """Commits outputs of the source, with a residual at the given watermark."""
    number = reading(scheduler)
    return scheduler.handle_event(
        BundleDone(
            number,
            1,
            tuple(Output("read.out", one) for one in outputs),  # type: ignore[arg-type]
            (Residual(data("rest", MIN_TIMESTAMP), watermark=watermark, estimator_state=number),),
        )
    )


def test_source_advances_the_watermark_by_its_estimator() -> None:
    scheduler = started()
    read_done(scheduler, watermark=10)
    report = scheduler.create_stage_report("read")
    assert report.input_watermark == MIN_TIMESTAMP
    assert report.output_watermark == 10
    assert scheduler.create_stage_report("count").input_watermark == 10
    assert scheduler.open_bundles[0].inputs[0].estimator_state == 0


def test_key_shards_run_at_most_one_bundle_each_at_the_same_time() -> None:
    scheduler = started()
    first = read_done(scheduler, data("a", 1, shard=0), data("b", 2, shard=1), watermark=5)
    count = next(c for c in first if isinstance(c, OpenBundles) and c.stage == "count")
    assert [(bundle.shard, refs(bundle)) for bundle in count.bundles] == [(0, ["a"]), (1, ["b"])]
    second = read_done(scheduler, data("c", 6, shard=0), watermark=7)
    assert not [c for c in second if isinstance(c, OpenBundles) and c.stage == "count"]
    zero = count.bundles[0].number
    again = only(scheduler.handle_event(BundleDone(zero, 1, summary=EMPTY_SUMMARY)), OpenBundles)
    assert [refs(bundle) for bundle in again.bundles] == [["c"]]


def test_bundle_contains_its_input_watermark_and_end_watermark() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), watermark=5)
    bundle = scheduler.open_bundles[0 if scheduler.open_bundles[0].stage == "count" else 1]
    assert (bundle.input_watermark, bundle.end_watermark) == (1, 5)


def test_committed_summary_replaces_the_holds_of_its_shard() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), data("b", 1, shard=1), watermark=50)
    zero, one = (b.number for b in scheduler.open_bundles if b.stage == "count")
    held = ShardSummary({20: 2, 30: 1}, next_event_timer=60)
    scheduler.handle_event(BundleDone(zero, 1, summary=held))
    scheduler.handle_event(BundleDone(one, 1, summary=ShardSummary({20: 1}, next_event_timer=60)))
    assert scheduler.create_stage_report("count").input_watermark == 50
    assert scheduler.create_stage_report("count").output_watermark == 20
    done = read_done(scheduler, data("c", 55, shard=0), watermark=55)
    bundle = next(c for c in done if isinstance(c, OpenBundles) and c.stage == "count").bundles[0]
    scheduler.handle_event(
        BundleDone(bundle.number, 1, summary=ShardSummary({30: 1}, next_event_timer=60))
    )
    assert scheduler.create_stage_report("count").output_watermark == 20
    fired = read_done(scheduler, watermark=60)
    due = next(c for c in fired if isinstance(c, OpenBundles) and c.stage == "count").bundles
    assert [(b.shard, b.inputs, b.end_watermark) for b in due] == [(0, (), 60), (1, (), 60)]
    scheduler.handle_event(BundleDone(due[1].number, 1, summary=EMPTY_SUMMARY))
    assert scheduler.create_stage_report("count").output_watermark == 30


def test_window_expiry_at_the_maximum_timestamp_is_due_at_the_end_of_input() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), watermark=5)
    (count,) = (b.number for b in scheduler.open_bundles if b.stage == "count")
    scheduler.handle_event(BundleDone(count, 1, summary=ShardSummary(next_expiry=MAX_TIMESTAMP)))
    expired = only(scheduler.handle_event(BundleDone(reading(scheduler), 1)), OpenBundles).bundles[
        0
    ]
    assert (expired.shard, expired.inputs, expired.end_watermark) == (0, (), MAX_TIMESTAMP)
    finished = scheduler.handle_event(BundleDone(expired.number, 1, summary=EMPTY_SUMMARY))
    assert only(finished, ReleaseState) == ReleaseState("count")
    assert only(finished, FinishJob).outcome is Outcome.DONE


def test_window_expiry_is_due_after_the_watermark_has_passed() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), watermark=5)
    (count,) = (b.number for b in scheduler.open_bundles if b.stage == "count")
    scheduler.handle_event(BundleDone(count, 1, summary=ShardSummary(next_expiry=9)))
    at_nine = read_done(scheduler, watermark=9)
    assert [c.stage for c in at_nine if isinstance(c, OpenBundles)] == ["read"]
    beyond = read_done(scheduler, watermark=10)
    assert [c.stage for c in beyond if isinstance(c, OpenBundles)] == ["read", "count"]


def test_tick_at_the_due_processing_time_wakes_shards_and_residuals() -> None:
    scheduler = started(now=100)
    commands = scheduler.handle_event(
        BundleDone(
            0,
            1,
            (Output("read.out", data("a", 1, shard=0)),),
            (Residual(data("rest", MIN_TIMESTAMP), delay=50, watermark=5),),
        )
    )
    assert only(commands, RequestTick) == RequestTick(150)
    (count,) = scheduler.open_bundles
    summary = ShardSummary({1: 1}, next_processing_timer=120)
    earlier = scheduler.handle_event(BundleDone(count.number, 1, summary=summary))
    assert only(earlier, RequestTick) == RequestTick(120)
    assert scheduler.handle_event(Tick(119)) == ()
    rung = scheduler.handle_event(Tick(120))
    assert only(rung, OpenBundles).bundles[0].processing_time == 120
    assert only(rung, RequestTick) == RequestTick(150)
    assert scheduler.handle_event(Tick(110)) == ()
    assert refs(only(scheduler.handle_event(Tick(150)), OpenBundles).bundles[0]) == ["rest"]
    assert scheduler.next_wake is None


def test_commit_of_bundle_with_callbacks_emits_finalization_and_release_commands() -> None:
    scheduler = started()
    commands = scheduler.handle_event(BundleDone(0, 1, finalize=True))
    assert [type(c) for c in commands] == [FinalizeBundles, FinishJob, ReleaseData]
    assert only(commands, ReleaseData).data == (data("impulse", MIN_TIMESTAMP),)


def test_data_without_readers_is_released_immediately() -> None:
    scheduler = Scheduler(GraphSpec((StageSpec("a", ("r",), ("out",)),), ("r",)))
    scheduler.handle_event(Start(roots=(Output("r", data("d")),)))
    commands = scheduler.handle_event(BundleDone(0, 1, (Output("out", data("unread")),)))
    assert [one.ref for one in only(commands, ReleaseData).data] == ["unread", "d"]


def test_data_with_two_readers_is_released_after_the_second() -> None:
    graph = GraphSpec((StageSpec("a", ("r",)), StageSpec("b", ("r",))), ("r",))
    scheduler = Scheduler(graph)
    scheduler.handle_event(Start(roots=(Output("r", data("d")),)))
    assert scheduler.handle_event(BundleDone(0, 1)) == ()
    assert only(scheduler.handle_event(BundleDone(1, 1)), ReleaseData).data == (data("d"),)


def test_stage_that_needs_complete_input_waits_for_the_end_of_input() -> None:
    section = StageSpec("section", ("read.out",), whole_input=True)
    scheduler = Scheduler(GraphSpec((READ, section), ("root",)))
    scheduler.handle_event(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    read_done(scheduler, data("a", 1), watermark=5)
    read_done(scheduler, data("b", 6), watermark=7)
    assert [wait for wait in scheduler.list_wait_reasons() if wait.stage == "section"] == [
        Wait(WaitKind.END_OF_INPUT, "section", watermark=7)
    ]
    whole = only(scheduler.handle_event(BundleDone(reading(scheduler), 1)), OpenBundles)
    assert [refs(bundle) for bundle in whole.bundles] == [["a", "b"]]


def test_watermark_hold_that_is_never_released_fails_the_job_as_stuck() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=3), watermark=5)
    scheduler.handle_event(BundleDone(reading(scheduler), 1))
    (count,) = scheduler.open_bundles
    commands = scheduler.handle_event(BundleDone(count.number, 1, summary=ShardSummary({4: 1})))
    assert only(commands, FailJob).kind is JobFailureKind.STUCK
    assert list_wait_reasons(scheduler.state)[0].kind is WaitKind.HOLD


def test_residuals_wait_for_a_busy_consumer() -> None:
    write = StageSpec("write", ("read.out",))
    limits = Limits(bundles_per_stage=1, backlog_bytes=15)
    scheduler = Scheduler(GraphSpec((READ, write), ("root",)), limits)
    scheduler.handle_event(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    read_done(scheduler, data("a", 1), watermark=2)
    (written, source) = sorted(scheduler.open_bundles, key=lambda bundle: bundle.stage)[::-1]
    assert (written.stage, source.stage) == ("write", "read")
    read_done(scheduler, data("b", 2), data("c", 2), watermark=3)
    assert [bundle.stage for bundle in scheduler.open_bundles] == ["write"]
    resumed = scheduler.handle_event(BundleDone(written.number, 1))
    assert {c.stage for c in resumed if isinstance(c, OpenBundles)} >= {"write"}
    assert scheduler.create_stage_report("write").waiting_bytes <= 20


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (BundleDone(7, 1), "bundle 7 was never opened"),
        (BundleDone(0, 2), "attempt at bundle 0 is 1"),
        (BundleDone(0, 1, summary=EMPTY_SUMMARY), "'read' is not keyed"),
        (BundleDone(0, 1, (Output("x", data("d", shard=0)),)), "'x' is not an output of stage 'r"),
        (BundleDone(0, 1, (Output("read.out", data("d")),)), "'d'.* has no key shard"),
        (BundleDone(0, 1, residuals=(Residual(data("d"), delay=-1),)), "a negative delay"),
    ],
)
def test_illegal_commit_raises_an_error_with_a_reason(event: BundleDone, why: str) -> None:
    with pytest.raises(IllegalEvent, match=why):
        started().handle_event(event)


def test_residuals_of_an_unsplittable_stage_raise_illegal_event() -> None:
    scheduler = Scheduler(GraphSpec((StageSpec("plain", ("r",)),), ("r",)))
    scheduler.handle_event(Start(roots=(Output("r", data("d")),)))
    with pytest.raises(IllegalEvent, match="'plain' is not splittable"):
        scheduler.handle_event(BundleDone(0, 1, residuals=(Residual(data("d")),)))


def test_keyed_commit_without_summary_raises_illegal_event() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), watermark=5)
    (count,) = (b.number for b in scheduler.open_bundles if b.stage == "count")
    with pytest.raises(IllegalEvent, match="the summary of shard 0 is missing"):
        scheduler.handle_event(BundleDone(count, 1))
    empty = data("none")
    empty = type(empty)("none", type(empty.facts)(0))
    with pytest.raises(IllegalEvent, match="'none' of collection 'count.out' has no elements"):
        scheduler.handle_event(
            BundleDone(count, 1, (Output("count.out", empty),), summary=EMPTY_SUMMARY)
        )


def test_start_event_with_collections_other_than_the_roots_raises_illegal_event() -> None:
    with pytest.raises(IllegalEvent, match=r"'read.out' is not a root of the graph"):
        Scheduler(JOB).handle_event(Start(roots=(Output("read.out", data("d", shard=0)),)))


def test_global_window_state_expires_with_the_input() -> None:
    scheduler = started()
    read_done(scheduler, data("a", 1, shard=0), watermark=5)
    scheduler.handle_event(BundleDone(reading(scheduler), 1))
    (count,) = scheduler.open_bundles
    assert count.end_watermark == 5
    summary = ShardSummary(next_expiry=END_OF_GLOBAL_WINDOW)
    expired = only(
        scheduler.handle_event(BundleDone(count.number, 1, summary=summary)), OpenBundles
    )
    assert expired.bundles[0].end_watermark == MAX_TIMESTAMP
