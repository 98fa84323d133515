"""Tests that timers set over the Fn API reach the runner, and that the runner fires them when they
are due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import desk as desk_module
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.chunks import FlushBarrier, InputChunk, StageTimer, TimerChunk
from beam_runner_model.varints import decode_varint
from beam_runner_urns import metrics as metric_urns
from desk import Desk
from last_stage import ThreadedCall
from tiny_host import LAST_ON_TIME_PANE, Chunks, Rows, new_pipeline, pickle_by_value
from toy_state import StatefulHost, ToyState

from beam_runner_worker.errors import BundleError, HarnessError

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)

EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
OTHER = userstate.TimerSpec("other", TimeDomain.WATERMARK)
WALL = userstate.TimerSpec("wall", TimeDomain.REAL_TIME)
# The Python SDK uses these names in the pipeline.
EVENT_FAMILY, OTHER_FAMILY = "ts-event", "ts-other"


class Rings(beam.DoFn):
    """A DoFn that sets and clears the timers of its elements, and records fired timers."""

    BAG = userstate.BagStateSpec("bag", coders.StrUtf8Coder())

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def start_bundle(self):
        Metrics.counter("ns", "bundles").inc()

    def process(
        self,
        element,
        bag=beam.DoFn.StateParam(BAG),  # noqa: B008
        event=beam.DoFn.TimerParam(EVENT),  # noqa: B008
        other=beam.DoFn.TimerParam(OTHER),  # noqa: B008
        wall=beam.DoFn.TimerParam(WALL),  # noqa: B008
        finalizer=beam.DoFn.BundleFinalizerParam,
    ):
        key, (name, tag, *time) = element
        timer = {"event": event, "other": other, "wall": wall}[name]
        if time:
            timer.set(time[0], dynamic_timer_tag=tag)
        else:
            timer.clear(dynamic_timer_tag=tag)
        bag.add(f"{name}{tag}")
        finalizer.register(lambda: self.desk.record_and_wait(f"{key} finalized"))

    def fired(self, name, key, at, time, tag, bag):
        bag.add("!")
        windowed = isinstance(at, window.IntervalWindow)
        where = f" in {at.start.micros // 1_000_000}" if windowed else ""
        self.desk.record_and_wait(f"{key} {name}{tag} at {time.micros // 1_000_000}{where}")
        yield key, len(list(bag.read()))

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.WindowParam,
        time=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        bag=beam.DoFn.StateParam(BAG),  # noqa: B008
        event=beam.DoFn.TimerParam(EVENT),  # noqa: B008
    ):
        if tag == "loop" and time.micros < 40_000_000:
            event.set(time + 10, dynamic_timer_tag=tag)
        if tag == "fails":
            raise ValueError("no ringing please")
        return self.fired("event", key, at, time, tag, bag)

    @userstate.on_timer(OTHER)
    def on_other(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.WindowParam,
        time=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        bag=beam.DoFn.StateParam(BAG),  # noqa: B008
    ):
        return self.fired("other", key, at, time, tag, bag)

    @userstate.on_timer(WALL)
    def on_wall(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.WindowParam,
        time=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        bag=beam.DoFn.StateParam(BAG),  # noqa: B008
        event=beam.DoFn.TimerParam(EVENT),  # noqa: B008
    ):
        event.set(time + 1, dynamic_timer_tag="after")
        return self.fired("wall", key, at, time, tag, bag)


Step = tuple[str, tuple[Any, ...]]


def prepared(
    steps: Iterable[Step], desk: Desk, windows: window.WindowFn | None = None
) -> StatefulHost:
    """Returns a test runner with steps at 5 s for a stateful transform, whose outputs are
    grouped.
    """
    p = new_pipeline()
    keyed = p | beam.Impulse() | beam.FlatMap(lambda _, all=list(steps): all)
    keyed = keyed | beam.Map(lambda step: window.TimestampedValue(step, 5))
    keyed = keyed | beam.WindowInto(windows or window.GlobalWindows())
    keyed = keyed | beam.Map(lambda step: step).with_output_types(tuple[str, Any])
    rung = keyed | "Ring" >> beam.ParDo(Rings(desk)).with_output_types(tuple[str, int])
    rung | beam.GroupByKey() | beam.Map(len)
    return StatefulHost(p)


def ring(
    steps: Iterable[Step], desk: Desk, serve: Any, windows: window.WindowFn | None = None
) -> StatefulHost:
    host = prepared(steps, desk, windows)
    host.run(serve(host).get_harness)
    return host


def rung(host: StatefulHost) -> list[tuple[bytes, int]]:
    """Returns keys and event times of the stateful stage's output."""
    (rows,) = (each for each in host.buffers.values() if isinstance(each, Rows))
    return [(key, time) for key, _, _, time in rows.rows]


def counted(infos: Iterable[MonitoringInfo], name: str) -> int:
    (info,) = (each for each in infos if dict(each.labels).get("NAME") == name)
    return decode_varint(info.payload, 0)[0]


def test_timer_fires_once_with_its_timestamp_and_state(serve, tmp_path):
    desk = Desk(tmp_path)
    host = ring([("a", ("event", "", 20)), ("b", ("event", "", 10))], desk, serve)
    assert desk.notes() == ["b event at 10", "a event at 20"]
    assert rung(host) == [(b"\x01b", 10_000), (b"\x01a", 20_000)]
    first, second = host.state.changes
    assert first == StageTimer(
        transform_id=first.transform_id,
        family=EVENT_FAMILY,
        tag="",
        key=b"\x01a",
        windows=(b"",),
        fire_at=20_000,
        hold=20_000,
        pane=LAST_ON_TIME_PANE,
    )
    assert (second.key, second.fire_at) == (b"\x01b", 10_000)
    assert {cell.key for cell in host.state.bags} == {first.key, second.key}


def test_last_timer_setting_applies_and_cleared_timers_do_not_fire(serve, tmp_path):
    desk = Desk(tmp_path)
    steps = [
        ("a", ("event", "x", 12)),
        ("a", ("event", "x", 30)),
        ("a", ("event", "y", 15)),
        ("a", ("event", "y")),
        ("b", ("event", "y", 16)),
        ("a", ("other", "never set")),
    ]
    host = ring(steps, desk, serve)
    assert desk.notes() == ["b eventy at 16", "a eventx at 30"]
    cleared = [timer for timer in host.state.changes if timer.fire_at is None]
    assert {(timer.family, timer.tag) for timer in cleared} == {
        (EVENT_FAMILY, "y"),
        (OTHER_FAMILY, "never set"),
    }
    assert all(timer.hold is None and not timer.pane for timer in cleared)


def test_processing_time_timers_hold_timestamp_of_their_element(serve, tmp_path):
    desk = Desk(tmp_path)
    host = ring([("a", ("wall", "", 1_700_000_000))], desk, serve)
    assert desk.notes() == ["a wall at 1700000000", "a eventafter at 1700000001"]
    first, second = host.state.changes
    assert (first.fire_at, first.hold) == (1_700_000_000_000, 5_000)
    assert (second.fire_at, second.hold) == (1_700_000_001_000, 1_700_000_001_000)


def test_bundle_with_flush_barriers_is_one_bundle_for_runner(serve, tmp_path):
    """Each settle marker starts a bundle of the SDK. The runner gets one combined reply."""
    desk = Desk(tmp_path)
    host = prepared([("a", ("event", "loop", 20)), ("b", ("event", "", 11))], desk)
    server = serve(host)
    host.run(server.get_harness)
    result = host.stateful
    assert counted(result.metrics, "bundles") == 5
    names = [(info.urn, info.type, info.labels) for info in result.metrics]
    assert len(set(names)) == len(names)
    assert metric_urns.DATA_CHANNEL_READ_INDEX not in {info.urn for info in result.metrics}
    assert result.requires_finalization
    spec = next(each for each in host.specs if "Ring" in each.name)
    stage = server.get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    assert not [note for note in desk.notes() if "finalized" in note]
    stage.finalize_bundle("bundle")
    stage.finalize_bundle("bundle")
    assert sorted(note for note in desk.notes() if "finalized" in note) == [
        "a finalized",
        "b finalized",
    ]


class Watched(ToyState):
    """A state that records the known changes at each request for more input."""

    def __init__(self, desk: Desk, stage: Any) -> None:
        super().__init__()
        self.desk = desk
        self.stage = stage
        self.seen: list[tuple[int, int]] = []

    def look(self, inputs: Iterable[InputChunk]) -> Iterator[InputChunk]:
        for chunk in self.fire_all_timers(inputs):
            yield chunk
            if isinstance(chunk, FlushBarrier):
                self.seen.append((len(self.changes), len(self.desk.notes())))


def ready(host: StatefulHost, serve: Any) -> tuple[Any, Any]:
    """Returns the stateful stage and its specification, with computed input."""
    server = serve(host)
    for spec in host.specs:
        if "Ring" in spec.name:
            return server.get_harness(spec.environment_id).get_stage_harness(
                spec, host.side_inputs(spec)
            ), spec
        host.run_stage(spec, server.get_harness(spec.environment_id))
    raise AssertionError("no stateful stage")


def test_input_after_flush_barrier_is_requested_only_after_previous_output(serve, tmp_path):
    desk = Desk(tmp_path)
    host = prepared([("a", ("event", "loop", 20)), ("b", ("event", "", 11))], desk)
    stage, spec = ready(host, serve)
    state = Watched(desk, stage)
    stage.process_bundle("b", state.look(host.inputs(spec)), host.outputs(spec), state)
    assert state.seen == [(2, 0), (2, 1), (3, 2), (4, 3), (4, 4)]


def test_bundle_with_flush_barriers_sums_progress_and_is_not_split(serve, tmp_path):
    desk = Desk(tmp_path).hold("a event at 20")
    host = prepared([("a", ("event", "", 20)), ("b", ("event", "", 11))], desk)
    stage, spec = ready(host, serve)
    state = ToyState()
    inputs = state.fire_all_timers(host.inputs(spec))
    bundle = ThreadedCall(stage.process_bundle, "b", inputs, host.outputs(spec), state)
    desk.wait_for("a event at 20")
    progress = stage.get_progress()
    assert progress.processed == 2
    assert counted(progress.metrics, "bundles") == 3
    assert stage.split(0.0, 2) is None
    desk.release_place()
    bundle.result()
    assert desk.notes() == ["b event at 11", "a event at 20"]


def test_timers_fire_in_order_with_preceding_elements(serve, tmp_path):
    desk = Desk(tmp_path)
    host = prepared([("a", ("event", "", 20))], desk)
    stage, spec = ready(host, serve)
    state = ToyState()
    stage.process_bundle("1", host.inputs(spec), host.outputs(spec), state)
    (set_timer,) = state.changes

    def timer(family: str, tag: str, seconds: int) -> StageTimer:
        return StageTimer(
            *(set_timer.transform_id, family, tag, set_timer.key, set_timer.windows),
            *(seconds * 1000, seconds * 1000, LAST_ON_TIME_PANE),
        )

    due = (timer(EVENT_FAMILY, "p", 3), timer(OTHER_FAMILY, "", 1), timer(EVENT_FAMILY, "q", 2))
    many = tuple(timer(OTHER_FAMILY, f"{number}", 7) for number in range(50))
    inputs = [*host.inputs(spec), TimerChunk(due), TimerChunk(many), TimerChunk(due[:1])]
    stage.process_bundle("2", inputs, host.outputs(spec), state)
    notes = [f"a other{number} at 7" for number in range(50)]
    assert desk.notes() == [
        *("a eventp at 3", "a other at 1", "a eventq at 2", *notes, "a eventp at 3")
    ]
    assert len(state.changes) == 2


def test_failing_timer_names_its_transform(serve, tmp_path):
    steps = [("a", ("event", "fails", 20)), ("a", ("event", "", 10))]
    host = prepared(steps, Desk(tmp_path))
    stage, spec = ready(host, serve)
    for _ in range(2):
        state = ToyState()
        with pytest.raises(BundleError, match="no ringing please") as caught:
            stage.process_bundle(
                "b", state.fire_all_timers(host.inputs(spec)), host.outputs(spec), state
            )
        assert caught.value.transform == "Ring"
        assert "timer" in caught.value.element
        assert "element" not in caught.value.element
    assert Desk(tmp_path).notes() == ["a event at 10"] * 2


def test_stage_with_timers_needs_state_and_stage_with_flush_barriers_does_not(serve, tmp_path):
    host = prepared([("a", ("event", "", 20))], Desk(tmp_path))
    stage, spec = ready(host, serve)
    with pytest.raises(HarnessError, match="without user state"):
        stage.process_bundle("b", host.inputs(spec), host.outputs(spec))
    before = next(each for each in host.specs if "Ring" not in each.name)
    kept = {edge.transform_id: Chunks() for edge in before.outputs}
    harness = serve(host).get_harness(before.environment_id)
    stage = harness.get_stage_harness(before, host.side_inputs(before))
    given = host.inputs(before)
    stage.process_bundle("b", [*given, FlushBarrier()], kept)
    once = _counts(kept)
    stage.process_bundle("b", [*given, FlushBarrier(), *given], kept)
    assert _counts(kept) == {sink: 3 * count for sink, count in once.items()}


def _counts(ports: dict[str, Chunks]) -> dict[str, int]:
    return {sink: sum(chunk.count for chunk in port.chunks) for sink, port in ports.items()}
