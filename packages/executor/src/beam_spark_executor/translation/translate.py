"""Makes the plan of a job from what was submitted, or rejects it by name."""

from __future__ import annotations

from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from apache_beam.transforms.window import GlobalWindows
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_jobservices.records import JobSpec
from beam_runner_worker.records import JobContext

from beam_spark_executor import _protos
from beam_spark_executor.plan import BufferKind, BufferPlan, JobPlan, StagePlan
from beam_spark_executor.translation.descriptors import DescriptorBuilder
from beam_spark_executor.translation.environments import (
    ResolvedEnvironment,
    resolve_environments,
)
from beam_spark_executor.translation.errors import UnsupportedPipeline
from beam_spark_executor.translation.fusion import FusedPipeline, fuse
from beam_spark_executor.translation.graph import Graph, build_graph
from beam_spark_executor.translation.rejection import unsupported
from beam_spark_executor.translation.sections import cut_sections
from beam_spark_executor.translation.windowing import windowing_strategy

_IMPULSE: bytes = (
    WindowedValueCoder(BytesCoder(), GlobalWindowCoder())
    .get_impl()
    .encode_nested(GlobalWindows.windowed_value(b""))
)


def translate(job: JobSpec) -> JobPlan:
    """Plans a job. Takes milliseconds for a small pipeline and grows with the number of stages.

    Raises:
        UnsupportedPipeline: it uses something that is not supported; the text names what and where.
    """
    pipeline = _protos.Pipeline.FromString(job.pipeline)
    environments = resolve_environments(pipeline, job.artifacts)
    reasons = unsupported(pipeline, environments)
    if reasons:
        raise UnsupportedPipeline(reasons)
    fused = fuse(pipeline, embedded=all(e.embedded for e in environments.values()))
    graph = build_graph(fused.stages)
    strategies = _strategies(graph, fused)
    stages = _stages(graph, fused, environments, strategies)
    buffers = {
        buffer_id: BufferPlan(buffer_id, kind, strategies.get(buffer_id))
        for buffer_id, kind in graph.kinds.items()
    }
    context = JobContext(
        job_id=job.job_id,
        job_name=job.job_name,
        options_json=job.options_json,
        environments={e: resolved.environment for e, resolved in environments.items()},
    )
    return JobPlan(context, stages, buffers, cut_sections(stages, buffers))


def _strategies(graph: Graph, fused: FusedPipeline) -> dict[str, WindowingStrategy]:
    """The windowing strategy that each GROUPED buffer groups by: that of what is written to it."""
    components = fused.components
    found: dict[str, WindowingStrategy] = {}
    for node in graph.nodes:
        for sink in node.sinks:
            if graph.kinds[sink.buffer_id] is BufferKind.GROUPED and sink.buffer_id not in found:
                pcollection = components.pcollections[sink.pcollection_id]
                proto = components.windowing_strategies[pcollection.windowing_strategy_id]
                found[sink.buffer_id] = windowing_strategy(proto, components)
    return found


def _stages(
    graph: Graph,
    fused: FusedPipeline,
    environments: dict[str, ResolvedEnvironment],
    strategies: dict[str, WindowingStrategy],
) -> dict[str, StagePlan]:
    builder = DescriptorBuilder(fused, graph)
    # A stage that only regroups needs some SDK to decode and encode: any will do.
    default_environment = next(iter(environments), "")
    produced = {p for node in graph.nodes for t in node.transforms for p in t.outputs.values()}
    stages: dict[str, StagePlan] = {}
    for index, node in enumerate(graph.nodes):
        stage_id = f"stage{index}"
        environment_id = node.environment_id or default_environment
        spec, outputs = builder.build(stage_id, node, environment_id, dict(graph.kinds), strategies)
        stages[stage_id] = StagePlan(
            spec=spec,
            embedded=environments[environment_id].embedded,
            input_buffer=node.source_buffer,
            impulse=b"" if node.source_buffer is not None else _IMPULSE,
            outputs=outputs,
            side_inputs=node.side_inputs,
            counted_elsewhere=(
                node.source_pcollection if node.source_pcollection in produced else ""
            ),
        )
    return stages
