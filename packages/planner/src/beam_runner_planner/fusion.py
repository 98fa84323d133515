"""Fusion of a pipeline's transforms into stages: a sequence of phases that each rewrite one kind of
transform.

Fusion decodes no functions or coders of clients. Fusion compares and copies functions and coders as
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.combining import expand_combines
from beam_runner_planner.context import FusionContext
from beam_runner_planner.expansions import (
    expand_flattens,
    expand_impulses,
    expand_shuffles,
    expand_test_streams,
)
from beam_runner_planner.fusing import StageSteps, fuse_steps
from beam_runner_planner.isolation import ElementIsolation
from beam_runner_planner.key_prefixes import prefix_keys_and_values
from beam_runner_planner.leaf_transforms import RESHUFFLES, has_own_outputs, list_leaf_transforms
from beam_runner_planner.splitting import expand_splittable_dofns
from beam_runner_planner.stage_starts import mark_stage_starts
from beam_runner_planner.steps import Step
from beam_runner_planner.transform_checks import find_redistributed_pcollection
from beam_runner_planner.window_coders import make_windows_readable

_OF_THE_RUNNER = RESHUFFLES | {
    transform_urns.FLATTEN,
    transform_urns.GROUP_BY_KEY,
    transform_urns.TEST_STREAM,
}
_EDGE = re.compile(r"stage\d+/(read|write/\d+)$")


@attrs.frozen
class FusedStage:
    """A stage of the fused pipeline: transforms between one data source and several data sinks.

    Attributes:
        transforms: the transforms without the source and the sinks.
        environment_id: the SDK environment; None if no transform in the stage needs an SDK.
        source: the data-source transform; its payload is the id of the buffer that the stage reads.
        sinks: the data-sink transforms; each payload is the id of a buffer that the stage writes.
    """

    transforms: tuple[_protos.PTransform, ...]
    environment_id: str | None
    source: _protos.PTransform
    sinks: tuple[_protos.PTransform, ...]


@attrs.frozen
class FusedPipeline:
    """Fused stages, and the pipeline's components after fusion.

    Attributes:
        components: the pipeline's components, with the additions of fusion.
        stages: the stages, each after the stages that it depends on.
        edge_coders: by PCollection id, the id of the windowed coder at the edge of a stage.
        script_coders: by buffer id, the id of the coder of the elements that a TestStream writes to
            the buffer.
    """

    components: _protos.Components
    stages: tuple[FusedStage, ...]
    edge_coders: dict[str, str]
    script_coders: dict[str, str]


def fuse_pipeline(
    pipeline: _protos.Pipeline, *, prefixed: bool, isolation: ElementIsolation | None = None
) -> FusedPipeline:
    """Fuses a pipeline, and leaves the given pipeline unchanged.

    Args:
        pipeline: a complete pipeline.
        prefixed: whether data between stages has length prefixes, by which the runner splits keys,
            values and elements. If every environment is embedded, the same Python code writes and
            reads every coder. The runner then needs no prefixes, unless it isolates elements.
        isolation: the steps whose elements the runner must be able to isolate; None for no steps.

    Raises:
        InvalidPipeline: transforms depend on each other in a cycle.
    """
    copy = _protos.Pipeline()
    copy.CopyFrom(pipeline)
    make_windows_readable(copy.components)
    context = FusionContext(copy.components, _OF_THE_RUNNER)
    script_coders: dict[str, str] = {}
    steps = list(_list_pipeline_steps(copy, context))
    # Without length prefixes, the runner can't find the end of an element that no coder can decode.
    prefixed = prefixed or isolation is not None
    if not prefixed:
        context.mark_all_coders_known()
    for step in steps:
        for pcollection_id in sorted(step.sides):
            context.length_prefix_pcoll_coders(pcollection_id)
    steps = list(expand_combines(steps, context))
    steps = list(expand_splittable_dofns(steps, context))
    if prefixed:
        steps = list(prefix_keys_and_values(steps, context))
    steps = list(expand_shuffles(steps, context))
    steps = list(expand_flattens(steps, context))
    steps = list(expand_test_streams(steps, context, script_coders))
    steps = list(expand_impulses(steps, context))
    stages = fuse_steps(mark_stage_starts(steps, context, isolation), context)
    for stage in stages:
        for edge in (stage.source, *stage.sinks):
            for pcollection_id in (*edge.outputs, *edge.transform.inputs.values()):
                context.add_data_channel_coder(pcollection_id)
    return FusedPipeline(
        components=context.components,
        stages=tuple(map(_build_fused_stage, stages)),
        edge_coders=dict(context.data_channel_coders),
        script_coders=script_coders,
    )


def _list_pipeline_steps(pipeline: _protos.Pipeline, context: FusionContext) -> Iterator[Step]:
    for _, transform in list_leaf_transforms(pipeline.root_transform_ids, pipeline.components):
        # A ParDo without outputs may still have side effects.
        if transform.spec.urn == transform_urns.PAR_DO or has_own_outputs(transform):
            wanted = transform.unique_name
            # These coders are for the edges inside a stage; see `descriptors`.
            transform.unique_name = context.create_unique_step_name(
                f"{wanted} " if _EDGE.match(wanted) else wanted
            )
            if transform.spec.urn in RESHUFFLES:
                _remove_other_inputs(transform)
            yield Step(transform)


def _remove_other_inputs(reshuffle: _protos.PTransform) -> None:
    """Removes all inputs of a reshuffle except the PCollection that the reshuffle redistributes."""
    main = find_redistributed_pcollection(reshuffle)
    assert main is not None
    reshuffle.inputs.clear()
    reshuffle.inputs["in"] = main


def _build_fused_stage(stage: StageSteps) -> FusedStage:
    return FusedStage(
        transforms=tuple(step.transform for step in stage.steps),
        environment_id=stage.environment_id,
        source=stage.source.transform,
        sinks=tuple(edge.transform for edge in stage.sinks),
    )
