"""Conversion of a job's plan to the graph that the engine's scheduler needs: stages, collections,
TestStream sources, and initial data.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from beam_runner_data.rows.refs import InlineRows
from beam_runner_data.rows.row import build_element_row
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import Output
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    AdvanceWatermark,
    DefaultWindowMapping,
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
    TestStreamStep,
)
from beam_runner_model.buffers import BufferKind, SideInputUse
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_planner.plan import (
    JobPlan,
    ScriptedClock,
    ScriptedElements,
    ScriptedWatermark,
    StagePlan,
    TestStreamPlan,
)

_KINDS = {BufferKind.GROUPED: StageKind.GROUPING, BufferKind.KEYED: StageKind.STATEFUL}


def make_scheduler_graph(plan: JobPlan, *, sections: bool = False) -> GraphSpec:
    """Returns the scheduler's graph of a plan, with the plan's stages, and a collection for each
    buffer between stages.

    Each Impulse reads a separate root collection. A buffer without a writer, such as an empty
    Flatten, is a root without data.

    Args:
        sections: whether to mark stages that can run together in a section.
    """
    spans = _find_section_stages(plan) if sections else frozenset()
    scripted = {buffer_id for stream in plan.test_streams for buffer_id in stream.buffers}
    written = {buffer_id for stage in plan.stages.values() for buffer_id in stage.outputs.values()}
    return GraphSpec(
        stages=tuple(_make_stage_spec(plan, stage, spans) for stage in plan.stages.values()),
        roots=(
            *(
                _get_main_input_collection(stage)
                for stage in plan.stages.values()
                if stage.input_buffer is None
            ),
            *(b for b in plan.buffers if b not in written and b not in scripted),
        ),
        test_streams=tuple(
            TestStreamSpec(stream.name, stream.buffers, tuple(_convert_test_stream_steps(stream)))
            for stream in plan.test_streams
        ),
    )


def make_root_outputs(plan: JobPlan) -> tuple[Output, ...]:
    """Returns the initial data of the job: one element for each impulse."""
    return tuple(
        Output(
            _get_main_input_collection(stage),
            _make_element_data(_get_main_input_collection(stage), 1, stage.impulse, MIN_TIMESTAMP),
        )
        for stage in plan.stages.values()
        if stage.input_buffer is None
    )


def _get_main_input_collection(stage: StagePlan) -> str:
    """Returns the collection of a stage's main input."""
    return f"impulse:{stage.stage_id}" if stage.input_buffer is None else stage.input_buffer


def _make_stage_spec(plan: JobPlan, stage: StagePlan, spans: Container[str]) -> StageSpec:
    source = None if stage.input_buffer is None else plan.buffers[stage.input_buffer]
    kind = _KINDS.get(source.kind, StageKind.ORDINARY) if source else StageKind.ORDINARY
    return StageSpec(
        name=stage.stage_id,
        inputs=(_get_main_input_collection(stage),),
        outputs=tuple(dict.fromkeys(stage.outputs.values())),
        kind=kind,
        side_inputs=tuple(_make_side_input_spec(use) for use in stage.side_inputs),
        splittable=stage.splittable,
        whole_input=stage.table is not None
        or (source is not None and source.kind.is_keyed and source.whole),
        joint_shards=source is not None and source.kind is BufferKind.GROUPED and source.bulk,
        joint_pieces=source is not None
        and source.kind is BufferKind.DEALT
        and not source.restrictions
        and not stage.splittable
        and stage.table is None,
        spans=stage.stage_id in spans,
    )


def _find_section_stages(plan: JobPlan) -> frozenset[str]:
    """Returns the stages that can be part of a section (stages that run together as one Spark job).
    The input of a section must be complete before the section starts.
    """
    if plan.streaming or plan.test_streams or plan.one_interpreter:
        return frozenset()
    return frozenset(s.stage_id for s in plan.stages.values() if _can_join_section(plan, s))


def _can_join_section(plan: JobPlan, stage: StagePlan) -> bool:
    source = None if stage.input_buffer is None else plan.buffers[stage.input_buffer]
    in_parts = source is not None and source.kind.is_keyed and not source.whole
    return stage.table is None and not stage.stable_input and not stage.callbacks and not in_parts


def _make_side_input_spec(use: SideInputUse) -> SideInputSpec:
    return SideInputSpec(
        name=use.name,
        collection=use.buffer_id,
        mapping=DefaultWindowMapping(use.mapping_fn),
        readiness=(
            SideInputReadiness.FIRST_PANE if use.early else SideInputReadiness.END_OF_WINDOW
        ),
        retention=use.retention,
        replaces=use.latest,
    )


def _convert_test_stream_steps(stream: TestStreamPlan) -> Iterator[TestStreamStep]:
    for number, step in enumerate(stream.steps):
        match step:
            case ScriptedElements(buffer_id, count, data, min_timestamp):
                name = f"{buffer_id}#{number}"
                yield AddElements(buffer_id, _make_element_data(name, count, data, min_timestamp))
            case ScriptedWatermark(buffer_id, watermark):
                yield AdvanceWatermark(buffer_id, watermark)
            case ScriptedClock(duration):
                yield AdvanceProcessingTime(duration)


def _make_element_data(name: str, count: int, data: bytes, min_timestamp: int) -> Data:
    row = build_element_row(0, ElementChunk(count, data, min_timestamp=min_timestamp))
    facts = DataStatistics(count, len(data), min_timestamp, windows=frozenset({GLOBAL_WINDOW}))
    return Data(InlineRows(name, ((row.kind, row.data),)), facts)
