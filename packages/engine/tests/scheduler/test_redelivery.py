"""Tests of data that one stage processes again. The data is pending work, and can be late."""

from __future__ import annotations

import pytest
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.scheduler.commands import OpenBundles, ReleaseData
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Event,
    Output,
    Redeliver,
    Residual,
    Start,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageKind, StageSpec

from .samples import data, only, refs

GRAPH = GraphSpec(
    (
        StageSpec("read", ("root",), ("made",), splittable=True),
        StageSpec("parse", ("made",), ("parsed",)),
        StageSpec("other", ("made",)),
        StageSpec("count", ("parsed",), kind=StageKind.STATEFUL),
    ),
    ("root",),
)
NOW = 1000


def reading() -> Scheduler:
    """Returns a scheduler whose source has the watermark `NOW`, and waits."""
    scheduler = Scheduler(GRAPH)
    scheduler.handle_event(Start(roots=(Output("root", data("source")),)))
    rest = Residual(data("rest"), delay=60_000, watermark=NOW)
    scheduler.handle_event(BundleDone(0, 1, (), (rest,)))
    assert scheduler.create_stage_report("parse").output_watermark == NOW
    return scheduler


def test_redelivered_late_data_reaches_one_stage_and_leaves_watermark_unchanged() -> None:
    scheduler = reading()
    opened = only(scheduler.handle_event(Redeliver("parse", (data("late", 5),))), OpenBundles)
    assert (opened.stage, refs(opened.bundles[0])) == ("parse", ["late"])
    assert scheduler.create_stage_report("parse").input_watermark == NOW, (
        "a watermark never goes back"
    )
    (bundle,) = opened.bundles
    assert bundle.input_watermark == NOW
    out = Output("parsed", data("parsed", 5, shard=2))
    commands = scheduler.handle_event(BundleDone(bundle.number, 1, (out,)))
    (counted,) = only(commands, OpenBundles).bundles
    assert (counted.stage, refs(counted)) == ("count", ["parsed"])
    assert only(commands, ReleaseData).data == (data("late", 5),)


def test_watermark_of_stage_waits_for_redelivered_data() -> None:
    scheduler = reading()
    again = data("again", NOW + 5)
    (bundle,) = only(scheduler.handle_event(Redeliver("parse", (again,))), OpenBundles).bundles
    source = scheduler.state.stages[0]
    scheduler.handle_event(Redeliver("read", (data("more", NOW + 100),)))
    assert source.output == NOW
    assert scheduler.create_stage_report("parse").output_watermark == NOW
    scheduler.handle_event(BundleDone(bundle.number, 1))
    assert scheduler.create_stage_report("parse").waiting == 0


@pytest.mark.parametrize(
    "event",
    [
        Redeliver("unknown", (data("x"),)),
        Redeliver("count", (data("x"),)),
        Redeliver("parse", (data("x", windows=(GLOBAL_WINDOW,)), data("empty"))),
    ],
)
def test_redelivered_data_without_required_statistics_raises_illegal_event(
    event: Redeliver,
) -> None:
    if event.stage == "parse":
        from attrs import evolve

        empty = evolve(event.data[1], facts=evolve(event.data[1].facts, count=0))
        event = Redeliver("parse", (event.data[0], empty))
    scheduler = reading()
    with pytest.raises(IllegalEvent):
        scheduler.handle_event(event)


def test_redelivery_to_a_stage_whose_output_has_ended_raises_illegal_event() -> None:
    scheduler = Scheduler(
        GraphSpec((*GRAPH.stages, StageSpec("slow", ("late",))), ("root", "late"))
    )
    roots = (Output("root", data("source")), Output("late", data("waits")))
    (first, second) = [
        bundle
        for command in scheduler.handle_event(Start(roots=roots))
        if isinstance(command, OpenBundles)
        for bundle in command.bundles
    ]
    done: Event = BundleDone(first.number if first.stage == "read" else second.number, 1)
    scheduler.handle_event(done)
    with pytest.raises(IllegalEvent, match="is complete"):
        scheduler.handle_event(Redeliver("parse", (data("x"),)))
