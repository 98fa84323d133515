"""What a job tells about itself while it runs."""

from __future__ import annotations

from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP

from beam_runner_engine.scheduler.events import BundleDone, Drain, Output, Residual, Start
from beam_runner_engine.scheduler.reports import StageReport, Wait, WaitFor, describe_waits
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageKind, StageSpec

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
    """`read` waits to be resumed, `count` for a timer in each of two shards, `write` for `count`."""
    scheduler = Scheduler(JOB)
    scheduler.handle(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    outputs = tuple(Output("read.out", data(f"d{shard}", 1, shard)) for shard in (0, 1))
    residual = Residual(data("rest", MIN_TIMESTAMP), delay=50, watermark=5)
    scheduler.handle(BundleDone(0, 1, outputs, (residual,)))
    zero, one = (bundle.number for bundle in scheduler.open_bundles)
    scheduler.handle(BundleDone(zero, 1, summary=ShardSummary({3: 1}, next_event_timer=9)))
    scheduler.handle(BundleDone(one, 1, summary=ShardSummary({4: 1}, next_processing_timer=70)))
    return scheduler


def test_every_stage_says_what_it_waits_for() -> None:
    assert running().waits() == (
        Wait("read", WaitFor.PROCESSING_TIME, "has residuals to resume later: 1"),
        Wait(
            "count",
            WaitFor.WATERMARK,
            "waits in shard 0 for the watermark 9 ms; it is 5 ms",
        ),
        Wait("count", WaitFor.PROCESSING_TIME, "has a timer in shard 1 for 70 ms"),
        Wait(
            "write",
            WaitFor.UPSTREAM,
            "waits for collection 'count.out', whose watermark is 3 ms",
        ),
    )


def test_a_stage_with_bundles_says_so() -> None:
    scheduler = running()
    scheduler.handle(Drain())
    assert scheduler.waits()[0].why == "has bundles running: 1"


def test_the_end_and_the_beginning_of_time_are_told_in_words() -> None:
    scheduler = Scheduler(JOB)
    assert next(wait.why for wait in scheduler.waits()) == (
        "waits for collection 'root', whose watermark is the beginning of time"
    )
    scheduler.handle(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    scheduler.handle(BundleDone(0, 1, (Output("read.out", data("d", 1, 0)),)))
    scheduler.handle(
        BundleDone(1, 1, summary=ShardSummary(next_processing_timer=MAX_TIMESTAMP + 1))
    )
    assert scheduler.waits()[0].why.endswith("has a timer in shard 0 for the end of time")


def test_many_causes_are_counted() -> None:
    waits = [Wait("s", WaitFor.HOLD, f"cause {number}") for number in range(10)]
    upstream = Wait("t", WaitFor.UPSTREAM, "consequence")
    told = describe_waits([upstream, *waits])
    assert told.startswith("stage 's' cause 0; stage 's' cause 1")
    assert told.endswith("cause 7; 2 more like these")
    assert describe_waits([upstream]) == "stage 't' consequence"


def test_a_host_has_words_of_its_own_for_stages() -> None:
    wait = Wait("t", WaitFor.HOLD, "waits for Godot")
    assert describe_waits([wait], {"t": "The tree"}.__getitem__) == "The tree waits for Godot"


def test_a_report_counts_the_backlog() -> None:
    scheduler = Scheduler(JOB, Limits(bundles_per_stage=1))
    roots = tuple(Output("root", data(name)) for name in "abc")
    scheduler.handle(Start(roots=roots))
    residuals = (Residual(data("r")), Residual(data("later"), delay=5))
    scheduler.handle(BundleDone(0, 1, residuals=residuals))
    assert scheduler.report("read") == StageReport(
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
