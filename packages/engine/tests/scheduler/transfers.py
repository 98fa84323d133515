"""Helpers of the tests of transfers: small jobs, their captured states and the opened bundles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from beam_runner_model.summary import ShardSummary
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Event,
    Output,
    Residual,
    Start,
)
from beam_runner_engine.scheduler.kept_state import Identities, SavedJobState
from beam_runner_engine.scheduler.refusals import RefusalKind, TransferRefused
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .samples import data, refs

READ = StageSpec("read", ("root",), ("made",), splittable=True)
KEYED = StageSpec("keyed", ("made",), ("kept",), StageKind.STATEFUL)
WRITE = StageSpec("write", ("made",))
WINDOW = IntervalWindow(0, 10)


def named(graph: GraphSpec) -> Identities:
    """Returns identities in which every part has its name in the graph as identity."""
    names = {name for stage in graph.stages for name in (*stage.inputs, *stage.outputs)}
    return Identities(
        {stage.name: stage.name for stage in graph.stages},
        {name: name for name in sorted(names - set(graph.roots))},
        {
            (stage.name, one.name): (stage.name, one.name)
            for stage in graph.stages
            for one in stage.side_inputs
        },
    )


def run(graph: GraphSpec, *events: Event) -> Scheduler:
    """Returns a scheduler after its start with data in each root, and after the events."""
    scheduler = Scheduler(graph)
    scheduler.handle_event(Start(roots=tuple(Output(name, data(name)) for name in graph.roots)))
    for event in events:
        scheduler.handle_event(event)
    return scheduler


def capture(scheduler: Scheduler) -> SavedJobState:
    state = scheduler.state
    graph = GraphSpec(state.graph.stages, state.graph.roots)
    return capture_job_state(state, named(graph))


def kinds(error: pytest.ExceptionInfo[TransferRefused]) -> set[tuple[RefusalKind, str]]:
    return {(one.kind, one.identity) for one in error.value.refusals}


def opened(commands: Iterable[object]) -> dict[str, list[list[Any]]]:
    """Returns the references in the opened bundles, by stage."""
    found: dict[str, list[list[Any]]] = {}
    for command in commands:
        if isinstance(command, OpenBundles):
            found.setdefault(command.stage, []).extend(map(refs, command.bundles))
    return found


def run_keyed() -> Scheduler:
    """Returns a scheduler with a timer at 50, a hold at 20 and an unfinished source."""
    summary = ShardSummary({20: 1}, next_event_timer=50)
    return run(
        GraphSpec((READ, KEYED), ("root",)),
        BundleDone(
            0, 1, (Output("made", data("one", 20, shard=3)),), (Residual(data("rest"), 1, 30),)
        ),
        BundleDone(1, 1, summary=summary),
    )


SIDE = SideInputSpec("side", "sides", DefaultWindowMapping(FixedWindows(10)))


def with_side_input(*, side: SideInputSpec = SIDE, splittable: bool = True) -> GraphSpec:
    made = StageSpec("make", ("root",), ("sides",), splittable=splittable)
    return GraphSpec((made, StageSpec("main", ("more",), side_inputs=(side,))), ("root", "more"))


def run_with_side_input(*residuals: Residual) -> Scheduler:
    """Returns a scheduler whose side input has data in a window and is ahead of the window."""
    scheduler = Scheduler(with_side_input())
    roots = (
        Output("root", data("root")),
        Output("more", data("more", windows=(WINDOW, IntervalWindow(10, 20)))),
    )
    scheduler.handle_event(Start(roots=roots))
    side = Output("sides", data("side", windows=(WINDOW,)))
    ahead = residuals or (Residual(data("rest", 12), delay=1, watermark=12),)
    scheduler.handle_event(BundleDone(0, 1, (side,), ahead))
    return scheduler
