"""Tests that plans become graphs which the scheduler accepts: it starts, and every stage gets work."""

from __future__ import annotations

from collections import deque

import pytest
import samples
from beam_runner_data.rows.refs import InlineRows
from beam_runner_data.rows.row import RowKind
from beam_runner_engine.scheduler.commands import Bundle, FailJob, FinishJob, OpenBundles, Outcome
from beam_runner_engine.scheduler.events import BundleDone, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    AdvanceWatermark,
    DefaultWindowMapping,
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
)
from beam_runner_model.buffers import BufferKind
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.window_fns import FixedWindows, GlobalWindows
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_planner.plan import JobPlan, ScriptedElements

from beam_runner_driver.ledger.scheduling import make_root_outputs, make_scheduler_graph

every_sample = pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)


def started(plan: JobPlan) -> tuple[GraphSpec, list[str]]:
    """Returns the graph, and the stages with bundles at the start."""
    graph = make_scheduler_graph(plan)
    commands = Scheduler(graph).handle_event(Start(0, make_root_outputs(plan)))
    return graph, [command.stage for command in commands if isinstance(command, OpenBundles)]


def run(plan: JobPlan) -> tuple[list[Bundle], Outcome]:
    """Returns all bundles of a job in which no stage has output, and the end of the job."""
    scheduler = Scheduler(make_scheduler_graph(plan))
    waiting = deque(scheduler.handle_event(Start(0, make_root_outputs(plan))))
    bundles = []
    while waiting:
        command = waiting.popleft()
        if isinstance(command, OpenBundles):
            for bundle in command.bundles:
                bundles.append(bundle)
                waiting.extend(scheduler.handle_event(BundleDone(bundle.number, bundle.attempt)))
        elif isinstance(command, FinishJob):
            return bundles, command.outcome
        else:
            assert not isinstance(command, FailJob), command
    raise AssertionError("the job stopped without an end")


@every_sample
def test_scheduler_graph_of_plan_is_processed_to_its_end(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    bundles, outcome = run(plan)
    assert outcome is Outcome.DONE
    assert [stage.name for stage in make_scheduler_graph(plan).stages] == list(plan.stages)
    fed = {stage.stage_id for stage in plan.stages.values() if stage.input_buffer is None}
    scripted = {
        step.buffer_id
        for stream in plan.test_streams
        for step in stream.steps
        if isinstance(step, ScriptedElements)
    }
    fed |= {s.stage_id for s in plan.stages.values() if s.input_buffer in scripted}
    assert {bundle.stage for bundle in bundles} == fed


def test_impulse_data_is_one_inline_row() -> None:
    plan = samples.plan_of(samples.map_only)
    (root, *_) = make_root_outputs(plan)
    assert isinstance(root.data.ref, InlineRows)
    ((kind, row),) = root.data.ref.rows
    assert kind is RowKind.ELEMENTS and row.endswith(plan.stages["stage0"].impulse)
    facts = root.data.facts
    assert facts.count == 1 and facts.min_timestamp == MIN_TIMESTAMP
    assert facts.windows == frozenset({GLOBAL_WINDOW})


def test_impulses_have_distinct_data_references() -> None:
    refs = [
        root.data.ref for root in make_root_outputs(samples.plan_of(samples.flatten_then_group))
    ]
    assert len(refs) == len(set(refs)) == 2


def test_group_by_key_of_bounded_input_starts_after_complete_input() -> None:
    plan = samples.plan_of(samples.group_twice)
    graph, _ = started(plan)
    grouping = [stage for stage in graph.stages if stage.kind is StageKind.GROUPING]
    assert len(grouping) == 2 and all(stage.whole_input for stage in grouping)
    for stage in grouping:
        assert plan.buffers[stage.inputs[0]].kind is BufferKind.GROUPED
    assert not any(s.whole_input for s in graph.stages if s not in grouping)
    assert {stage for stage in graph.stages if stage.joint_shards} == set(grouping)


@pytest.mark.parametrize(
    ("build", "joint"),
    [
        (samples.reshuffle_then_group, {True}),
        (samples.reshuffle_of_groups, {True}),
        (samples.splittable, {False}),
        (samples.periodic, {False}),
        (samples.scripted_reshuffle, {True}),
    ],
)
def test_reshuffled_elements_are_read_in_order_while_small(
    build: samples.Build, joint: set[bool]
) -> None:
    plan = samples.plan_of(build)
    graph, _ = started(plan)
    dealt = {b for b, buffer in plan.buffers.items() if buffer.kind is BufferKind.DEALT}
    reading = [stage for stage in graph.stages if not dealt.isdisjoint(stage.inputs)]
    assert {stage.joint_pieces for stage in reading} == joint
    assert {plan.buffers[b].restrictions for b in dealt} == {not one for one in joint}


def test_buffer_without_writer_becomes_root_without_data() -> None:
    plan = samples.plan_of(samples.flatten_of_nothing)
    assert make_root_outputs(plan) == ()
    (stage,) = make_scheduler_graph(plan).stages
    assert make_scheduler_graph(plan).roots == stage.inputs


@pytest.mark.parametrize("build", [samples.without_a_source, samples.flatten_of_nothing])
def test_job_without_data_ends_immediately(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    commands = Scheduler(make_scheduler_graph(plan)).handle_event(Start(0, make_root_outputs(plan)))
    assert FinishJob(Outcome.DONE) in commands


def test_output_written_by_two_stages_becomes_one_collection() -> None:
    plan = samples.plan_of(samples.flatten_of_siblings)
    (writer,) = (s for s in plan.stages.values() if len(s.outputs) == 2)
    spec = next(s for s in make_scheduler_graph(plan).stages if s.name == writer.stage_id)
    assert len(spec.outputs) == 1


def test_side_inputs_of_stage_have_unique_names() -> None:
    plan = samples.plan_of(samples.side_inputs)
    specs = [side for stage in make_scheduler_graph(plan).stages for side in stage.side_inputs]
    assert len(specs) == 3
    assert {side.collection for side in specs} <= set(plan.buffers)


@pytest.mark.parametrize(
    ("build", "whole"),
    [(samples.triggered_groups, True), (samples.scripted_groups, False), (samples.periodic, False)],
)
def test_bounded_input_is_grouped_when_input_is_complete(build: samples.Build, whole: bool) -> None:
    """This holds for every trigger: the panes must not depend on the order of arrival."""
    graph, _ = started(samples.plan_of(build))
    (grouping,) = (stage for stage in graph.stages if stage.kind is StageKind.GROUPING)
    assert grouping.whole_input is whole


def test_transform_with_side_inputs_after_group_by_key_is_separate_stage() -> None:
    for build in (samples.side_input_behind_a_group, samples.side_input_sink_behind_a_group):
        graph, _ = started(samples.plan_of(build))
        (grouping,) = (stage for stage in graph.stages if stage.kind is StageKind.GROUPING)
        (reader,) = (stage for stage in graph.stages if stage.side_inputs)
        assert reader.kind is StageKind.ORDINARY and reader.inputs[0] in grouping.outputs


def test_side_inputs_are_read_at_end_of_their_window() -> None:
    (side,) = sides(samples.two_outputs)
    assert side.readiness is SideInputReadiness.END_OF_WINDOW
    assert side.retention == 7_000
    assert side.mapping == DefaultWindowMapping(FixedWindows(5_000))


def test_side_inputs_with_several_panes_are_readable_after_first_pane() -> None:
    (side,) = sides(samples.updating_side_input)
    assert side.readiness is SideInputReadiness.FIRST_PANE
    assert side.mapping == DefaultWindowMapping(GlobalWindows())


def sides(build: samples.Build) -> list[SideInputSpec]:
    graph, _ = started(samples.plan_of(build))
    return [side for stage in graph.stages for side in stage.side_inputs]


def test_source_stages_are_splittable() -> None:
    plan = samples.plan_of(samples.periodic)
    graph, _ = started(plan)
    splittable = [stage for stage in graph.stages if stage.splittable]
    assert splittable
    for stage in splittable:
        assert plan.buffers[stage.inputs[0]].kind is BufferKind.DEALT


def test_test_stream_becomes_test_stream_source_of_scheduler() -> None:
    graph, _ = started(samples.plan_of(samples.scripted))
    (stream,) = graph.test_streams
    watermark, added, clock, end = stream.steps
    (buffer,) = stream.outputs
    assert watermark == AdvanceWatermark(buffer, 10_000)
    assert clock == AdvanceProcessingTime(5_000)
    assert end == AdvanceWatermark(buffer, MAX_TIMESTAMP)
    assert isinstance(added, AddElements) and added.collection == buffer
    facts = added.data.facts
    assert facts.count == 2 and facts.min_timestamp == 10_000
    assert facts.windows == frozenset({GLOBAL_WINDOW})
    assert isinstance(added.data.ref, InlineRows)
    ((kind, row),) = added.data.ref.rows
    assert kind is RowKind.ELEMENTS and len(row) == facts.size + 8


def test_test_stream_elements_have_distinct_data_references() -> None:
    graph, _ = started(samples.plan_of(samples.scripted_flatten))
    refs = [
        step.data.ref
        for stream in graph.test_streams
        for step in stream.steps
        if isinstance(step, AddElements)
    ]
    assert len(refs) == len(set(refs)) == 2
