"""Tests of the stage boundaries for side inputs, and of the windows that the scheduler gets."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam import pvalue
from apache_beam.internal import pickler
from apache_beam.testing import test_stream
from apache_beam.transforms import sideinputs, trigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
)
from beam_runner_model import window_fns
from beam_runner_model.buffers import SideInputUse
from beam_runner_model.stages import InputKind, OutputEdge
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, StagePlan


def the_use(plan: JobPlan) -> tuple[StagePlan, SideInputUse]:
    ((stage, use),) = ((s, use) for s in plan.stages.values() for use in s.side_inputs)
    return stage, use


def edges_of(stage: StagePlan) -> dict[str, OutputEdge]:
    return {edge.transform_id: edge for edge in stage.spec.outputs}


def urns(stage: StagePlan) -> list[str]:
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    return [transform.spec.urn for transform in descriptor.transforms.values()]


def windowed_main(p: beam.Pipeline, side: beam.PCollection) -> None:
    main = p | "main" >> beam.Create([1]) | "main windows" >> beam.WindowInto(FixedWindows(5))
    main | beam.Map(lambda x, y: x, pvalue.AsIter(side)) | beam.Map(str)


def bounded_windows(p: beam.Pipeline) -> beam.PCollection:
    return p | "side" >> beam.Create([1]) | "side windows" >> beam.WindowInto(FixedWindows(7))


def scripted_windows(p: beam.Pipeline) -> beam.PCollection:
    return (
        p | "side" >> test_stream.TestStream().add_elements([1]) | beam.WindowInto(FixedWindows(7))
    )


def scripted(p: beam.Pipeline) -> beam.PCollection:
    return p | "side" >> test_stream.TestStream().add_elements([1])


def test_bounded_side_input_is_read_after_its_end() -> None:
    stage, use = the_use(samples.plan_of(lambda p: windowed_main(p, bounded_windows(p))))
    assert transform_urns.ASSIGN_WINDOWS in urns(stage)
    assert isinstance(use.mapping_fn, window_fns.OpaqueWindows)


def test_unbounded_side_input_is_read_per_window_of_main_input() -> None:
    plan = samples.plan_of(lambda p: windowed_main(p, scripted_windows(p)))
    stage, use = the_use(plan)
    assert transform_urns.ASSIGN_WINDOWS not in urns(stage)
    assert use.mapping_fn == window_fns.FixedWindows(7_000)
    (writer,) = samples.writers(plan, stage.input_buffer)
    assert transform_urns.ASSIGN_WINDOWS in urns(writer)


def test_global_window_side_input_needs_no_window_tracking() -> None:
    stage, use = the_use(samples.plan_of(lambda p: windowed_main(p, scripted(p))))
    assert transform_urns.ASSIGN_WINDOWS in urns(stage)
    assert use.mapping_fn == window_fns.GlobalWindows()
    assert not use.early


@pytest.mark.parametrize(
    "build", [samples.side_input_behind_a_group, samples.side_input_sink_behind_a_group]
)
@pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
def test_grouping_runs_in_separate_stage_from_following_step_with_side_input(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    stage, _ = the_use(plan)
    assert stage.spec.input.kind is InputKind.ELEMENTS
    (writer,) = samples.writers(plan, stage.input_buffer)
    assert writer.spec.input.kind is InputKind.GROUPS


def test_step_with_side_input_is_fused_if_no_grouping_precedes_it() -> None:
    def build(p: beam.Pipeline) -> None:
        side = p | "side" >> beam.Create([1])
        elements = p | beam.Create([1]) | beam.Map(lambda x: x)
        elements | "Here" >> beam.Map(lambda x, y: y, pvalue.AsIter(side))

    stage, _ = the_use(samples.plan_of(build))
    assert urns(stage).count(transform_urns.PAR_DO) >= 2


def test_bounded_side_inputs_are_read_when_complete_with_any_trigger() -> None:
    def build(p: beam.Pipeline) -> None:
        side = p | "side" >> beam.Create([1]) | samples.every_element()
        p | beam.Create([1]) | beam.Map(lambda x, y: y, pvalue.AsIter(side))

    _, use = the_use(samples.plan_of(build))
    assert not use.early


def test_main_input_reports_windows_if_side_input_windows_are_awaited() -> None:
    plan = samples.plan_of(lambda p: windowed_main(p, scripted_windows(p)))
    stage, use = the_use(plan)
    assert use.by_window
    telling = [buffer_id for buffer_id, buffer in plan.buffers.items() if buffer.windows]
    assert telling == [stage.input_buffer]
    told = {t: e.windows for s in plan.stages.values() for t, e in edges_of(s).items()}
    assert told == {
        t: b == stage.input_buffer for s in plan.stages.values() for t, b in s.outputs.items()
    }


@pytest.mark.parametrize("side", [bounded_windows, scripted])
def test_main_input_reports_no_windows_without_awaited_side_input(side: samples.Build) -> None:
    plan = samples.plan_of(lambda p: windowed_main(p, side(p)))
    _, use = the_use(plan)
    assert not use.by_window
    assert not any(buffer.windows for buffer in plan.buffers.values())


def updating_use(view: Any, mode: Any, value: Any = 1, early: bool = True) -> SideInputUse:
    def build(p: beam.Pipeline) -> None:
        side = p | "side" >> test_stream.TestStream().add_elements([0])
        values = side | beam.Map(lambda _: value).with_output_types(type_of(value))
        when = trigger.Repeatedly(trigger.AfterCount(1)) if early else trigger.DefaultTrigger()
        fired = values | beam.WindowInto(GlobalWindows(), trigger=when, accumulation_mode=mode)
        p | beam.Create([1]) | beam.Map(lambda x, y: y, view(fired))

    _, use = the_use(samples.plan_of(build))
    return use


def type_of(value: Any) -> Any:
    return tuple[str, int] if isinstance(value, tuple) else type(value)


DISCARDING = trigger.AccumulationMode.DISCARDING
ACCUMULATING = trigger.AccumulationMode.ACCUMULATING


@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING])
def test_updated_singleton_side_input_shows_latest_value(mode: Any) -> None:
    use = updating_use(pvalue.AsSingleton, mode)
    assert (use.early, use.latest) == (True, True)
    use = updating_use(lambda side: pvalue.AsSingleton(side, default_value=9), mode)
    assert use.latest
    use = updating_use(pvalue.AsSingleton, mode, early=False)
    assert (use.early, use.latest) == (False, False)


@pytest.mark.parametrize("early", [True, False])
def test_updated_side_input_is_mapped_again_by_sdk(early: bool) -> None:
    def build(p: beam.Pipeline) -> None:
        when = trigger.Repeatedly(trigger.AfterCount(1)) if early else trigger.DefaultTrigger()
        side = scripted(p) | beam.WindowInto(
            GlobalWindows(), trigger=when, accumulation_mode=DISCARDING
        )
        p | beam.Create([1]) | "Use" >> beam.Map(lambda x, y: y, pvalue.AsSingleton(side))

    stage, use = the_use(samples.plan_of(build))
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    payload = descriptor.transforms[use.transform_id].spec.payload
    side_input = _protos.ParDoPayload.FromString(payload).side_inputs[use.tag]
    mapping_fn = pickler.loads(side_input.window_mapping_fn.payload)
    assert mapping_fn(IntervalWindow(0, 1)) == GlobalWindow()
    assert (mapping_fn == sideinputs._global_window_mapping_fn) is not early


@pytest.mark.parametrize("view", [pvalue.AsIter, pvalue.AsList, pvalue.AsDict, pvalue.AsMultiMap])
def test_updated_list_side_input_shows_all_panes(view: Any) -> None:
    use = updating_use(view, DISCARDING, ("a", 1))
    assert (use.early, use.latest) == (True, False)


def test_bounded_window_side_input_is_read_after_window_end() -> None:
    def build(p: beam.Pipeline) -> None:
        side = scripted(p) | samples.every_element()
        p | beam.Create([1]) | beam.Map(lambda x, y: y, pvalue.AsSingleton(side))

    _, use = the_use(samples.plan_of(build))
    assert (use.early, use.latest) == (False, True)
