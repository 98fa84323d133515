"""Tests of side inputs: work waits only for the windows that it needs, and data is stored as long
as it is needed.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_model.window_fns import FixedWindows, OpaqueWindows, SlidingWindows
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow

from beam_runner_engine.scheduler.commands import FailJob, OpenBundles, ReleaseData
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .samples import data, only, refs

W0, W1, W2 = (IntervalWindow(start, start + 10) for start in (0, 10, 20))


def side(**changes: Any) -> SideInputSpec:
    return SideInputSpec("names", "side", DefaultWindowMapping(FixedWindows(10)), **changes)


def job(spec: SideInputSpec) -> Scheduler:
    """Returns a scheduler in which `read` writes the side input, and `main` reads it with the root
    `r` as main input.
    """
    read = StageSpec("read", ("root",), ("side",), splittable=True)
    main = StageSpec("main", ("r",), side_inputs=(spec,))
    return Scheduler(GraphSpec((read, main), ("root", "r")))


def start(scheduler: Scheduler, *main: object) -> tuple[Any, ...]:
    roots = (
        Output("root", data("impulse", MIN_TIMESTAMP)),
        *(Output("r", one) for one in main),  # type: ignore[arg-type]
    )
    return scheduler.handle_event(Start(roots=roots))


def feed(scheduler: Scheduler, *outputs: object, watermark: int) -> tuple[Any, ...]:
    number = next(b.number for b in scheduler.open_bundles if b.stage == "read")
    return scheduler.handle_event(
        BundleDone(
            number,
            1,
            tuple(Output("side", one) for one in outputs),  # type: ignore[arg-type]
            (Residual(data("rest", MIN_TIMESTAMP), watermark=watermark),),
        )
    )


def main_bundles(commands: tuple[Any, ...]) -> list[Any]:
    return [
        bundle
        for command in commands
        if isinstance(command, OpenBundles) and command.stage == "main"
        for bundle in command.bundles
    ]


def test_window_waits_for_its_side_input_window() -> None:
    scheduler = job(side())
    assert not main_bundles(start(scheduler, data("m", 5, windows=(W0, W1))))
    assert scheduler.create_stage_report("main").blocked == 2
    (first,) = main_bundles(feed(scheduler, data("s", 3, windows=(W0,)), watermark=10))
    assert refs(first) == ["m"]
    assert first.inputs[0].windows == {W0}
    assert [(one.name, one.window, refs_of(one.data)) for one in first.side_inputs] == [
        ("names", W0, ["s"])
    ]
    (second,) = main_bundles(feed(scheduler, watermark=20))
    assert second.inputs[0].windows == {W1}
    assert [(one.window, one.data) for one in second.side_inputs] == [(W1, ())]


FIRST_END = MIN_TIMESTAMP + 5
"""First window end after the minimum timestamp: windows are 10 ms long and start at multiples of 10
ms.
"""
WHOLE, CUT = IntervalWindow(FIRST_END - 10, FIRST_END), IntervalWindow(MIN_TIMESTAMP, FIRST_END)


@pytest.mark.parametrize("main", [WHOLE, CUT])
@pytest.mark.parametrize("beside", [WHOLE, CUT])
@pytest.mark.parametrize("readiness", SideInputReadiness)
def test_side_input_window_that_starts_before_the_minimum_timestamp_is_found(
    main: IntervalWindow, beside: IntervalWindow, readiness: SideInputReadiness
) -> None:
    scheduler = job(side(readiness=readiness))
    start(scheduler, data("m", MIN_TIMESTAMP, windows=(main,)))
    fed = feed(scheduler, data("s", MIN_TIMESTAMP, windows=(beside,)), watermark=FIRST_END)
    (bundle,) = main_bundles(fed)
    (seen,) = bundle.side_inputs
    assert (seen.window, refs_of(seen.data)) == (beside, ["s"])


def test_timers_wait_for_blocked_data_of_their_shard() -> None:
    read = StageSpec("read", ("root",), ("side",), splittable=True)
    main = StageSpec("main", ("r",), kind=StageKind.STATEFUL, side_inputs=(side(),))
    scheduler = Scheduler(GraphSpec((read, main), ("root", "r")))
    start(
        scheduler,
        data("m", 5, shard=0, windows=(W0,)),
        data("n", 15, shard=0, windows=(W1,)),
        data("o", 6, shard=1, windows=(W0,)),
    )
    zero, one = main_bundles(feed(scheduler, watermark=10))
    assert (zero.shard, refs(zero), zero.end_watermark) == (0, ["m"], 15)
    assert (one.shard, refs(one), one.end_watermark) == (1, ["o"], MAX_TIMESTAMP)
    summary = ShardSummary({12: 1}, next_event_timer=16)
    assert scheduler.handle_event(BundleDone(zero.number, 1, summary=summary)) == (
        ReleaseData((data("m", 5, shard=0, windows=(W0,)),)),
    )
    (later,) = main_bundles(feed(scheduler, watermark=20))
    assert (refs(later), later.input_watermark) == (["n"], 15)
    assert later.end_watermark == MAX_TIMESTAMP


def test_windows_ready_together_share_a_bundle() -> None:
    scheduler = job(side())
    start(scheduler, data("m", 5, windows=(W0, W1)))
    (bundle,) = main_bundles(feed(scheduler, watermark=20))
    assert bundle.inputs[0].windows is None


def refs_of(found: tuple[Any, ...]) -> list[Any]:
    return [one.ref for one in found]


def released(commands: tuple[Any, ...]) -> list[Any]:
    return [
        one.ref for command in commands if isinstance(command, ReleaseData) for one in command.data
    ]


def test_first_pane_side_input_is_readable_and_updated() -> None:
    scheduler = job(side(readiness=SideInputReadiness.FIRST_PANE))
    start(scheduler, data("m", 5, windows=(W0,)), data("n", 15, windows=(W1,)))
    (first,) = main_bundles(feed(scheduler, data("s1", 3, windows=(W0,)), watermark=0))
    assert refs_of(first.side_inputs[0].data) == ["s1"]
    (second,) = main_bundles(feed(scheduler, data("s2", 3, windows=(W0, W1)), watermark=0))
    assert (refs(second), refs_of(second.side_inputs[0].data)) == (["n"], ["s2"])


def test_replaced_side_input_data_stays_until_open_bundles_close() -> None:
    scheduler = job(side(readiness=SideInputReadiness.FIRST_PANE, replaces=True))
    start(scheduler, data("m", 5, windows=(W0,)))
    (first,) = main_bundles(feed(scheduler, data("old", 3, windows=(W0,)), watermark=0))
    replaced = feed(scheduler, data("new", 3, windows=(W0,)), watermark=0)
    assert "old" not in released(replaced)
    done = scheduler.handle_event(BundleDone(first.number, 1))
    assert "old" in released(done)


def test_expired_side_input_window_is_released() -> None:
    read = StageSpec("read", ("root",), ("r", "side"), splittable=True)
    main = StageSpec("main", ("r",), side_inputs=(side(retention=5),))
    scheduler = Scheduler(GraphSpec((read, main), ("root",)))
    scheduler.handle_event(Start(roots=(Output("root", data("impulse", MIN_TIMESTAMP)),)))
    feed(scheduler, data("s", 3, windows=(W0,)), watermark=10)
    kept = feed(scheduler, watermark=14)
    assert "s" not in released(kept)
    dropped = feed(scheduler, watermark=15)
    assert "s" in released(dropped)
    late = feed(scheduler, data("late", 3, windows=(W0,)), watermark=15)
    assert "late" in released(late)


def test_elements_with_unknown_windows_wait_for_the_complete_side_input() -> None:
    scheduler = job(side())
    start(scheduler, data("m", 5, windows=None))
    assert not main_bundles(
        feed(scheduler, data("a", 3, windows=(W0,)), data("b", 13, windows=(W1,)), watermark=50)
    )
    number = next(b.number for b in scheduler.open_bundles if b.stage == "read")
    (bundle,) = main_bundles(scheduler.handle_event(BundleDone(number, 1)))
    assert [(one.window, refs_of(one.data)) for one in bundle.side_inputs] == [
        (W0, ["a"]),
        (W1, ["b"]),
    ]


def test_default_window_mapping_returns_the_side_input_window() -> None:
    assert DefaultWindowMapping().map_window(None) is GLOBAL_WINDOW
    assert DefaultWindowMapping(FixedWindows(100)).map_window(W2) == IntervalWindow(0, 100)
    assert DefaultWindowMapping(SlidingWindows(20, 10)).map_window(W2) == IntervalWindow(10, 30)
    assert DefaultWindowMapping(OpaqueWindows("custom")).map_window(W2) is None


@pytest.mark.parametrize(("end", "start"), [(2, 0), (3, 4), (4, 4), (6, 4), (7, 8), (-1, 0)])
def test_main_window_that_ends_in_a_gap_maps_to_the_next_side_input_window(
    end: int, start: int
) -> None:
    gaps = DefaultWindowMapping(SlidingWindows(2, 4))
    assert gaps.map_window(IntervalWindow(end - 1, end)) == IntervalWindow(start, start + 2)


@pytest.mark.parametrize("before_the_end", range(5))
def test_main_window_in_the_last_gap_maps_to_a_window_after_the_maximum_timestamp(
    before_the_end: int,
) -> None:
    gaps = DefaultWindowMapping(SlidingWindows(1, 10, offset=(MAX_TIMESTAMP - 4) % 10))
    end = MAX_TIMESTAMP - before_the_end
    following = gaps.map_window(IntervalWindow(end, end + 1))
    begin = MAX_TIMESTAMP - 4 if before_the_end == 4 else MAX_TIMESTAMP + 6
    assert following == IntervalWindow(begin, begin + 1)


def test_side_input_data_without_windows_raises_illegal_event() -> None:
    scheduler = job(side())
    start(scheduler)
    with pytest.raises(IllegalEvent, match="'s' of collection 'side' has no known windows"):
        feed(scheduler, data("s", 3, windows=None), watermark=10)


def test_wait_for_a_missing_side_input_is_reported() -> None:
    read = StageSpec("hold", ("root",), ("side",), kind=StageKind.STATEFUL)
    main = StageSpec("main", ("r",), side_inputs=(side(),))
    scheduler = Scheduler(GraphSpec((read, main), ("root", "r")))
    roots = (
        Output("root", data("a", 1, shard=0)),
        Output("r", data("m", 5, windows=(W0,))),
        Output("r", data("n", 5, windows=None)),
    )
    scheduler.handle_event(Start(roots=roots))
    commands = scheduler.handle_event(BundleDone(0, 1, summary=ShardSummary({4: 1})))
    assert only(commands, FailJob).kind is JobFailureKind.STUCK
    missing = Wait(
        WaitKind.SIDE_INPUT, "main", count=1, side_input="names", collection="side", watermark=4
    )
    assert scheduler.list_wait_reasons() == (
        Wait(WaitKind.HOLD, "hold", shard=0, until=4),
        attrs.evolve(missing, window=str(W0)),
        missing,
    )
    assert scheduler.create_stage_report("main").upstream_watermark == MAX_TIMESTAMP
