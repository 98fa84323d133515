"""Random jobs for the simulation: graphs of stages with simulated user code and sources."""

from __future__ import annotations

import attrs
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from hypothesis import strategies as st

from beam_runner_engine.scheduler.policy import DefaultSectionPolicy
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    AdvanceWatermark,
    DefaultWindowMapping,
    GraphSpec,
    Limits,
    Pauses,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
)

from .host import SimulatedHost
from .usercode import ENDLESS, Behaviour, Element

WINDOW_FNS: tuple[WindowFn, ...] = (GlobalWindows(), FixedWindows(10), SlidingWindows(20, 10))


@attrs.frozen
class Job:
    """Simulated caller with a job that has not started, and the input of the job."""

    host: SimulatedHost
    roots: dict[str, list[Element]]
    unbounded: bool
    leaks: bool


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Draws a job of up to seven stages, two roots and two TestStreams."""
    window_fn = draw(st.sampled_from(WINDOW_FNS))
    late = draw(st.integers(0, 4)) == 0
    maker = SimulatedHost(GraphSpec((), ()), {}, Limits())
    streams = tuple(
        draw(_stream(maker, number, window_fn, late)) for number in range(draw(st.integers(0, 2)))
    )
    roots = tuple(f"root{number}" for number in range(draw(st.integers(0 if streams else 1, 2))))
    known = [*roots, *(name for stream in streams for name in stream.outputs)]
    stages: list[StageSpec] = []
    behaviours: dict[str, Behaviour] = {}
    spans = draw(st.booleans())
    for number in range(draw(st.integers(1, 7))):
        stage, behaviour = draw(_stage(number, known, stages, window_fn, spans))
        stages.append(stage)
        behaviours[stage.name] = behaviour
        known += [name for name in stage.outputs if name not in known]
    graph = GraphSpec(tuple(stages), roots, streams)
    limits = Limits(
        parallelism=draw(st.integers(1, 4)),
        bundles_per_stage=draw(st.integers(1, 4)),
        user_attempts=draw(st.none() | st.integers(1, 4)),
        outside_attempts=draw(st.none() | st.integers(2, 5)),
        backlog_bytes=draw(st.sampled_from((1, 50, 1 << 30))),
        joint_bytes=draw(st.sampled_from((1, 50, 1 << 30))),
        section_exchanges=draw(st.sampled_from((1, 2, 8))),
        pauses=draw(st.sampled_from((Pauses(0, 0), Pauses(2, 12), Pauses(7, 7)))),
        outage_pauses=draw(st.sampled_from((Pauses(1, 5), Pauses(4, 4)))),
        outage_limit=draw(st.none() | st.integers(1, 20)),
    )
    policy = DefaultSectionPolicy(draw(st.sampled_from((0, 0, 40))), draw(st.booleans()))
    host = SimulatedHost(graph, behaviours, limits, late, policy)
    host.next_ident, host.next_ref = maker.next_ident, maker.next_ref
    return Job(
        host=host,
        roots={name: draw(_elements(host, window_fn, 0)) for name in roots},
        unbounded=any(one.unbounded for one in behaviours.values()),
        leaks=any(one.leaks for one in behaviours.values()),
    )


@st.composite
def _elements(
    draw: st.DrawFn, host: SimulatedHost, window_fn: WindowFn, earliest: int
) -> list[Element]:
    times = draw(st.lists(st.integers(earliest, earliest + 30), max_size=8))
    return [host.element(time, frozenset(assign_windows(window_fn, time))) for time in times]


@st.composite
def _stream(
    draw: st.DrawFn, host: SimulatedHost, number: int, window_fn: WindowFn, late: bool
) -> TestStreamSpec:
    outputs = tuple(f"stream{number}.{place}" for place in range(draw(st.integers(1, 2))))
    watermarks = dict.fromkeys(outputs, 0)
    steps: list[AddElements | AdvanceWatermark | AdvanceProcessingTime] = []
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from(outputs))
        match draw(st.sampled_from(("add", "add", "watermark", "clock"))):
            case "add":
                earliest = 0 if late else watermarks[name]
                elements = draw(_elements(host, window_fn, earliest))
                added = host.outputs(name, elements)
                steps += [AddElements(one.collection, one.data) for one in added]
            case "watermark":
                watermarks[name] += draw(st.integers(0, 20))
                steps.append(AdvanceWatermark(name, watermarks[name]))
            case _:
                steps.append(AdvanceProcessingTime(draw(st.integers(0, 20))))
    return TestStreamSpec(f"stream{number}", outputs, tuple(steps))


@st.composite
def _stage(
    draw: st.DrawFn,
    number: int,
    known: list[str],
    earlier: list[StageSpec],
    window_fn: WindowFn,
    spans: bool,
) -> tuple[StageSpec, Behaviour]:
    name = f"stage{number}"
    kind = draw(st.sampled_from(StageKind))
    fresh = _unread(earlier) if spans and draw(st.integers(0, 3)) else []
    inputs = draw(st.lists(st.sampled_from(fresh or known), min_size=1, max_size=2, unique=True))
    outputs = [f"{name}.{place}" for place in range(draw(st.integers(1 if spans else 0, 2)))]
    if earlier and draw(st.integers(0, 1 if spans else 5)) == 0:
        outputs += draw(_shared_output(earlier, inputs))
    splittable = kind is StageKind.ORDINARY and draw(st.integers(0, 3 if spans else 1)) == 0
    old = [one for one in known if one not in _unread(earlier)] if spans else known
    side_inputs = draw(_side_inputs(old, window_fn)) if kind is not StageKind.GROUPING else ()
    read = {*inputs, *(side.collection for side in side_inputs)}
    whole_input = draw(st.integers(0, 3)) == 0 or (spans and draw(st.integers(0, 3)) > 0)
    leaks = kind is StageKind.STATEFUL and draw(st.integers(0, 14)) == 0
    keyed = kind is not StageKind.ORDINARY
    spec = StageSpec(
        name=name,
        inputs=tuple(inputs),
        outputs=tuple(one for one in outputs if one not in read),
        kind=kind,
        side_inputs=side_inputs,
        splittable=splittable,
        whole_input=whole_input,
        joint_shards=whole_input and keyed and not leaks and draw(st.booleans()),
        joint_pieces=not (whole_input or keyed or splittable) and draw(st.booleans()),
        spans=spans and not leaks and (whole_input or not keyed) and draw(st.integers(0, 5)) > 0,
    )
    behaviour = Behaviour(
        unbounded=splittable and draw(st.integers(0, 2)) == 0,
        delay=draw(st.sampled_from((0, 0, 5))),
        drain_keeps=draw(st.sampled_from((None, 0, 1))) if splittable else None,
        processing_timers=draw(st.booleans()),
        leaks=leaks,
        lateness=draw(st.sampled_from((0, 7))),
    )
    return spec, behaviour


@st.composite
def _shared_output(draw: st.DrawFn, earlier: list[StageSpec], inputs: list[str]) -> list[str]:
    """Draws a collection without readers that the stage also writes, as flattening creates them."""
    free = [name for name in _unread(earlier) if name not in inputs]
    return [draw(st.sampled_from(free))] if free else []


def _unread(earlier: list[StageSpec]) -> list[str]:
    """Returns the collections that stages write and no stage reads."""
    read = {name for stage in earlier for name in stage.inputs}
    read |= {side.collection for stage in earlier for side in stage.side_inputs}
    written = dict.fromkeys(name for stage in earlier for name in stage.outputs)
    return [name for name in written if name not in read]


@st.composite
def _side_inputs(
    draw: st.DrawFn, known: list[str], window_fn: WindowFn
) -> tuple[SideInputSpec, ...]:
    collections = draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
    if draw(st.booleans()):
        return ()
    return tuple(
        SideInputSpec(
            name=f"side{place}",
            collection=collection,
            mapping=DefaultWindowMapping(window_fn),
            readiness=draw(st.sampled_from(SideInputReadiness)),
            retention=draw(st.sampled_from((0, ENDLESS))),
            replaces=draw(st.integers(0, 4)) == 0,
        )
        for place, collection in enumerate(collections)
    )
