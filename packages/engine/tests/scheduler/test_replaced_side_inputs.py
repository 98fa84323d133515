"""Tests of side inputs that each commit replaces: later bundles see only the latest data of a
window.
"""

from __future__ import annotations

import pytest
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.scheduler.commands import Bundle, ReleaseData
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageSpec,
)

from .samples import data, only

W0, W1 = IntervalWindow(0, 10), IntervalWindow(10, 20)


def updating(replaces: bool) -> Scheduler:
    """Returns a scheduler in which `update` writes the side input of `use` repeatedly, and `feed`
    writes its main input.
    """
    side = SideInputSpec(
        "s",
        "side",
        DefaultWindowMapping(FixedWindows(10)),
        readiness=SideInputReadiness.FIRST_PANE,
        replaces=replaces,
    )
    stages = (
        StageSpec("update", ("updates",), ("side",), splittable=True),
        StageSpec("feed", ("elements",), ("main",), splittable=True),
        StageSpec("use", ("main",), side_inputs=(side,)),
    )
    scheduler = Scheduler(GraphSpec(stages, ("updates", "elements")))
    roots = tuple(Output(name, data(name)) for name in ("updates", "elements"))
    scheduler.handle_event(Start(roots=roots))
    return scheduler


def running(scheduler: Scheduler, stage: str) -> list[Bundle]:
    return [bundle for bundle in scheduler.open_bundles if bundle.stage == stage]


def put_out(scheduler: Scheduler, stage: str, ref: str, window: IntervalWindow) -> tuple[str, ...]:
    """Commits data of a window from a running bundle of the stage, and returns the released data."""
    collection = {"update": "side", "feed": "main"}[stage]
    (bundle,) = running(scheduler, stage)
    output = Output(collection, data(ref, window.start, windows=(window,)))
    rest = Residual(data(f"{stage} after {ref}"))
    commands = scheduler.handle_event(BundleDone(bundle.number, 1, (output,), (rest,)))
    return tuple(one.ref for one in only(commands, ReleaseData).data)


def seen(bundle: Bundle) -> list[str]:
    return [one.ref for side in bundle.side_inputs for one in side.data]


@pytest.mark.parametrize("replaces", [False, True])
def test_commit_replaces_side_input_data_of_its_window(replaces: bool) -> None:
    scheduler = updating(replaces)
    put_out(scheduler, "update", "v1", W0)
    put_out(scheduler, "update", "other", W1)
    put_out(scheduler, "feed", "a", W0)
    (first,) = running(scheduler, "use")
    assert seen(first) == ["v1"]
    assert "v1" not in put_out(scheduler, "update", "v2", W0), "a running bundle reads it"
    put_out(scheduler, "feed", "b", W0)
    put_out(scheduler, "feed", "c", W1)
    _, second, third = running(scheduler, "use")
    assert seen(second) == (["v2"] if replaces else ["v1", "v2"])
    assert seen(third) == ["other"]
    assert seen(first) == ["v1"], "a bundle sees what was there when it was opened"
    released = only(scheduler.handle_event(BundleDone(first.number, 1)), ReleaseData).data
    assert ("v1" in [one.ref for one in released]) is replaces
