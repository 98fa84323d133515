"""Tests that TestStreams take one step at a time, in turn, when no other work can proceed."""

from __future__ import annotations

from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary

from beam_runner_engine.scheduler.commands import FinishJob, OpenBundles, Outcome, ReleaseData
from beam_runner_engine.scheduler.events import BundleDone, Drain, Start, Tick
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    AdvanceWatermark,
    GraphSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
    TestStreamStep,
)

from .samples import data, only, refs


def script(name: str, *steps: TestStreamStep) -> TestStreamSpec:
    return TestStreamSpec(name, (f"{name}.out",), steps)


def test_test_streams_take_steps_in_turn() -> None:
    one = script("one", AddElements("one.out", data("a")), AddElements("one.out", data("b")))
    two = script("two", AddElements("two.out", data("x")))
    sink = StageSpec("sink", ("one.out", "two.out"))
    scheduler = Scheduler(GraphSpec((sink,), test_streams=(one, two)))
    seen = []
    commands = scheduler.handle_event(Start())
    while scheduler.open_bundles:
        (bundle,) = scheduler.open_bundles
        seen += refs(bundle)
        commands = scheduler.handle_event(BundleDone(bundle.number, 1))
    assert seen == ["a", "x", "b"]
    assert only(commands, FinishJob).outcome is Outcome.DONE


def test_test_stream_step_waits_for_open_bundles() -> None:
    stream = script(
        "one",
        AddElements("one.out", data("a", 1, shard=0)),
        AdvanceWatermark("one.out", 10),
        AdvanceProcessingTime(100),
        AddElements("one.out", data("b", 11, shard=1)),
    )
    count = StageSpec("count", ("one.out",), kind=StageKind.STATEFUL)
    scheduler = Scheduler(GraphSpec((count,), test_streams=(stream,)))
    first = only(scheduler.handle_event(Start(5)), OpenBundles).bundles[0]
    assert scheduler.create_stage_report("count").upstream_watermark < 0
    assert scheduler.handle_event(Tick(1_000)) == ()
    summary = ShardSummary({9: 1}, next_event_timer=9, next_processing_timer=50)
    second = only(scheduler.handle_event(BundleDone(first.number, 1, summary=summary)), OpenBundles)
    assert (second.bundles[0].end_watermark, second.bundles[0].processing_time) == (10, 5)
    summary = ShardSummary({12: 1}, next_processing_timer=50)
    third = only(
        scheduler.handle_event(BundleDone(second.bundles[0].number, 1, summary=summary)),
        OpenBundles,
    )
    assert third.bundles[0].processing_time == 105
    done = BundleDone(third.bundles[0].number, 1, summary=EMPTY_SUMMARY)
    fourth = only(scheduler.handle_event(done), OpenBundles)
    assert refs(fourth.bundles[0]) == ["b"]


def test_scripted_clock_after_the_script_jumps_to_the_next_wake_up() -> None:
    stream = script("one", AddElements("one.out", data("a", 1, shard=0)), AdvanceProcessingTime(1))
    count = StageSpec("count", ("one.out",), kind=StageKind.STATEFUL)
    scheduler = Scheduler(GraphSpec((count,), test_streams=(stream,)))
    scheduler.handle_event(Start())
    summary = ShardSummary(next_processing_timer=5_000)
    jumped = only(scheduler.handle_event(BundleDone(0, 1, summary=summary)), OpenBundles)
    assert jumped.bundles[0].processing_time == 5_000
    assert scheduler.next_wake is None


def test_drain_ends_the_test_stream() -> None:
    stream = script("one", AddElements("one.out", data("a")), AddElements("one.out", data("b")))
    scheduler = Scheduler(GraphSpec((StageSpec("sink", ("one.out",)),), test_streams=(stream,)))
    scheduler.handle_event(Start())
    assert only(scheduler.handle_event(Drain()), ReleaseData).data == (data("b"),)
    assert only(scheduler.handle_event(BundleDone(0, 1)), FinishJob).outcome is Outcome.DRAINED
