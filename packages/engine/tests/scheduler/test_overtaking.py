"""Tests of the watermark check, with violations that the tests cause by changing the state."""

from __future__ import annotations

from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY

from beam_runner_engine.scheduler.commands import Command, OpenBundles
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual, Start
from beam_runner_engine.scheduler.overtaking import LateDataViolation, WatermarkChecker
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageKind, StageSpec

GRAPH = GraphSpec(
    (
        StageSpec("read", ("root",), ("read",), splittable=True),
        StageSpec("group", ("read",), (), StageKind.GROUPING),
    ),
    roots=("root",),
)


def data(name: str, time: int) -> Data:
    return Data(name, DataStatistics(1, 10, time, shard=0, windows=None))


def begun() -> tuple[Scheduler, WatermarkChecker, int]:
    """Returns a scheduler whose source emitted an element at 5 ms and reported the watermark 10 ms."""
    scheduler, watch = Scheduler(GRAPH), WatermarkChecker()
    opened = watch.handle_event(scheduler, Start(0, (Output("root", data("all", 0)),)))
    given = done(first(opened), data("five", 5), watermark=10)
    return scheduler, watch, first(watch.handle_event(scheduler, given))


def first(commands: tuple[Command, ...]) -> int:
    """Returns the number of the first opened bundle of the source."""
    return next(
        command.bundles[0].number
        for command in commands
        if isinstance(command, OpenBundles) and command.stage == "read"
    )


def done(bundle: int, given: Data, watermark: int | None = None) -> BundleDone:
    rest = () if watermark is None else (Residual(data(f"from {watermark}", 0), 0, watermark),)
    return BundleDone(bundle, 1, (Output("read", given),), rest)


def test_watermark_checker_accepts_output_ahead_of_the_watermark_of_its_readers() -> None:
    for time in (3, 9, 10, 20):
        scheduler, watch, bundle = begun()
        watch.handle_event(scheduler, done(bundle, data("next", time)))
        assert watch.take_violations() == []


def test_watermark_checker_reports_output_behind_the_watermark_of_its_reader() -> None:
    scheduler, watch, bundle = begun()
    scheduler.state.stages[1].upstream.set_time("read", 30)
    watch.handle_event(scheduler, done(bundle, data("next", 20)))
    assert watch.take_violations() == [LateDataViolation("group", "read", 20, 30)]
    assert watch.take_violations() == []


def test_watermark_checker_accepts_output_that_was_already_late() -> None:
    scheduler, watch, bundle = begun()
    scheduler.state.stages[1].upstream.set_time("read", 30)
    watch.handle_event(scheduler, done(bundle, data("late", 9)))
    assert watch.take_violations() == []


def test_watermark_checker_ignores_the_commit_of_a_closed_bundle() -> None:
    scheduler, watch, _ = begun()
    scheduler.state.stages[1].upstream.set_time("read", 30)
    watch.handle_event(scheduler, done(0, data("next", 20)))
    assert watch.take_violations() == []


def test_watermark_checker_reports_input_behind_the_watermark_of_its_bundle() -> None:
    scheduler, watch, bundle = begun()
    (grouping,) = (one for one in scheduler.open_bundles if one.stage == "group")
    watch.handle_event(scheduler, BundleDone(grouping.number, 1, summary=EMPTY_SUMMARY))
    # The watermark of the shard is ahead of the stage, so new data is late in the shard.
    scheduler.state.stages[1].shards[0].watermark = 30
    watch.handle_event(scheduler, done(bundle, data("next", 20), watermark=25))
    assert watch.take_violations() == [LateDataViolation("group", "read", 20, 30)]
