"""Translation of a submitted pipeline into a job plan. A pipeline with unsupported features is
rejected with their names.
"""

from __future__ import annotations

from collections.abc import Sequence

from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from apache_beam.transforms.window import GlobalWindows
from beam_runner_model.buffers import BufferPlan, SideInputUse
from beam_runner_model.jobs import JobSpec
from beam_runner_model.stages import JobContext
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.buffers import plan_buffers
from beam_runner_planner.descriptors import DescriptorBuilder
from beam_runner_planner.digest_environment import DIGEST_ENVIRONMENT
from beam_runner_planner.environments import (
    ResolvedEnvironment,
    resolve_environments,
)
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.fusion import FusedPipeline, fuse_pipeline
from beam_runner_planner.graph import PlanGraph, build_graph
from beam_runner_planner.isolation import ElementIsolation
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.plan import JobPlan, StagePlan, TestStreamPlan
from beam_runner_planner.rejection import find_unsupported_features
from beam_runner_planner.script_services import fetch_test_stream_events
from beam_runner_planner.scripted_windows import unwrap_windowed_value_holders
from beam_runner_planner.scripts import plan_test_stream
from beam_runner_planner.side_inputs import (
    add_windows_to_buffers,
    describe_side_inputs,
    reread_updated_side_inputs,
)
from beam_runner_planner.stateful import (
    find_first_stateful_transform,
    may_register_callbacks,
    needs_stable_input,
    plan_stateful_transform,
)
from beam_runner_planner.step_names import check_step_names
from beam_runner_planner.tables import check_table_buffers, plan_table_drain, plan_table_stage
from beam_runner_planner.truncation import plan_truncation
from beam_runner_planner.validation import parse_and_check_pipeline

_IMPULSE: bytes = (
    WindowedValueCoder(BytesCoder(), GlobalWindowCoder())
    .get_impl()
    .encode_nested(GlobalWindows.windowed_value(b""))
)


def plan_job(job: JobSpec, isolation: ElementIsolation | None = None) -> JobPlan:
    """Translates the pipeline of a submitted job into a plan.

    A small pipeline takes milliseconds, and the time grows with the number of stages. If a
    TestStream gets its events from a service, planning takes up to 30 s.

    Args:
        job: the job.
        isolation: the steps whose elements the runner must be able to isolate; None for no steps.

    Raises:
        InvalidPipeline: the pipeline is malformed; the text says what is wrong, and where.
        UnsupportedPipeline: the pipeline uses an unsupported feature; the error names the feature
            and the transform.
    """
    pipeline = parse_and_check_pipeline(job.pipeline)
    fetch_test_stream_events(pipeline)
    unwrap_windowed_value_holders(pipeline)
    environments = resolve_environments(pipeline, job.artifacts, job.options_json)
    reasons = find_unsupported_features(pipeline, environments)
    if reasons:
        raise UnsupportedPipeline(reasons)
    if isolation is not None:
        check_step_names((job.pipeline,), isolation.steps, isolation.option)
    unbounded = _is_unbounded(pipeline)
    # The encodings must not depend on environments, because an update can change these.
    embedded = not unbounded and all(e.embedded for e in environments.values())
    fused = fuse_pipeline(pipeline, prefixed=not embedded, isolation=isolation)
    graph = build_graph(fused.stages)
    if graph.nodes and not environments:
        raise InvalidPipeline("the pipeline has no environment in which its transforms can run")
    uses = [
        describe_side_inputs(node.side_inputs, node.transforms, fused.components)
        for node in graph.nodes
    ]
    for node, of_node in zip(graph.nodes, uses, strict=True):
        reread_updated_side_inputs(of_node, node.transforms)
    buffers = plan_buffers(graph, fused, environments)
    buffers = add_windows_to_buffers(
        buffers, zip([node.source_buffer for node in graph.nodes], uses, strict=True)
    )
    test_streams = _plan_test_streams(pipeline, buffers)
    streaming = bool(test_streams) or unbounded
    builder = DescriptorBuilder(fused, graph, buffers, streaming)
    context = JobContext(
        job_id=job.job_id,
        job_name=job.job_name,
        options_json=job.options_json,
        environments={e: resolved.environment for e, resolved in environments.items()},
    )
    scripted_clock = any(stream.sets_clock for stream in test_streams)
    stages = _plan_stages(graph, uses, fused, builder, environments, scripted_clock, buffers)
    return JobPlan(
        context,
        stages,
        buffers,
        test_streams,
        streaming,
        one_interpreter=all(environments[s.spec.environment_id].in_client for s in stages.values()),
    )


def _is_unbounded(pipeline: _protos.Pipeline) -> bool:
    return any(
        pcollection.is_bounded == _protos.IsBounded.UNBOUNDED
        for pcollection in pipeline.components.pcollections.values()
    )


def _plan_test_streams(
    pipeline: _protos.Pipeline, buffers: dict[str, BufferPlan]
) -> tuple[TestStreamPlan, ...]:
    return tuple(
        plan_test_stream(transform, pipeline.components, buffers)
        for _, transform in list_leaf_transforms(pipeline.root_transform_ids, pipeline.components)
        if transform.spec.urn == transform_urns.TEST_STREAM
    )


def _plan_stages(
    graph: PlanGraph,
    uses: Sequence[tuple[SideInputUse, ...]],
    fused: FusedPipeline,
    builder: DescriptorBuilder,
    environments: dict[str, ResolvedEnvironment],
    scripted_clock: bool,
    buffers: dict[str, BufferPlan],
) -> dict[str, StagePlan]:
    # A stage without transforms, which only groups by key again, needs an SDK for decoding and
    # encoding. Any SDK can do that.
    default_environment = next((one for one in environments if one != DIGEST_ENVIRONMENT), "")
    components = fused.components
    produced = {p for node in graph.nodes for t in node.transforms for p in t.outputs.values()}
    stages: dict[str, StagePlan] = {}
    for index, node in enumerate(graph.nodes):
        stage_id = f"stage{index}"
        environment_id = node.environment_id or default_environment
        spec, outputs = builder.build(stage_id, node, environment_id)
        stateful = find_first_stateful_transform(node.transforms, node.source_pcollection)
        table = plan_table_stage(node.transforms, components)
        if table is not None:
            check_table_buffers(node.name, node.source_buffer, outputs.values(), buffers)
        stages[stage_id] = StagePlan(
            spec=spec,
            embedded=environments[environment_id].embedded,
            input_buffer=node.source_buffer,
            impulse=b"" if node.source_buffer is not None else _IMPULSE,
            outputs=outputs,
            side_inputs=uses[index],
            counted_elsewhere=(
                node.source_pcollection if node.source_pcollection in produced else ""
            ),
            truncation=(
                plan_truncation(spec, components.environments[environment_id], components)
                if table is None
                else plan_table_drain(table)
            ),
            stable_input=any(map(needs_stable_input, node.transforms)),
            callbacks=any(map(may_register_callbacks, node.transforms)),
            stateful=stateful and plan_stateful_transform(stateful, scripted_clock=scripted_clock),
            table=table,
            identity=node.identity,
        )
    return stages
