"""Pipelines of shadow runs, in which a digest of the input replaces each step with effects outside.

A replaced step has the name, the main input and the outputs of the original step, and emits
nothing. The new step runs in an environment that the runner provides, and reads the elements
without the user's coders.
"""

from __future__ import annotations

from collections.abc import Collection, Set

import attrs
from beam_runner_urns import python_sdk
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.digest_environment import DIGEST_ENVIRONMENT, add_digest_environment
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.side_inputs import find_main_input_tag
from beam_runner_planner.step_names import is_step_named
from beam_runner_planner.window_coders import has_sdk_window_coder

_WRITES = frozenset({spark_urns.STAGE, spark_urns.PUBLISH})


@attrs.frozen
class ShadowPipeline:
    """Pipeline of a shadow run.

    Attributes:
        pipeline: the serialized pipeline.
        steps: the full names of the replaced steps.
    """

    pipeline: bytes = attrs.field(repr=False)
    steps: tuple[str, ...]


def make_shadow_pipeline(
    serialized: bytes, skip: Collection[str], reread: Collection[str], digest: bytes
) -> ShadowPipeline:
    """Returns a pipeline without effects outside of the runner.

    Args:
        serialized: a valid pipeline.
        skip: full names of further steps or composites to replace.
        reread: full names of sources, or of composites around them, that two programs can read.
        digest: the payload of the Python DoFn that replaces steps.

    Raises:
        InvalidPipeline: A shadow run can't compare the elements, or would take elements away from the
            running job; the text names the step.
    """
    pipeline = _protos.Pipeline.FromString(serialized)
    components = pipeline.components
    _check_windows(components)
    leaves = dict(list_leaf_transforms(pipeline.root_transform_ids, components)).values()
    read = {one for transform in leaves for one in transform.inputs.values()}
    replaced = []
    for transform in leaves:
        if _is_replaceable(transform) and (
            is_step_named(transform.unique_name, skip) or _has_effects(transform, read)
        ):
            replaced.append(transform.unique_name)
            _replace_step(transform, digest)
        elif not is_step_named(transform.unique_name, reread):
            _check_source(transform)
    add_digest_environment(components)
    return ShadowPipeline(pipeline.SerializeToString(deterministic=True), tuple(replaced))


def _check_windows(components: _protos.Components) -> None:
    if any(
        has_sdk_window_coder(one, components) for one in components.windowing_strategies.values()
    ):
        raise InvalidPipeline(
            "a shadow run can't compare elements in custom windows: check the update with"
            " --beam_spark_update=check"
        )


def _is_replaceable(transform: _protos.PTransform) -> bool:
    return transform.spec.urn == transform_urns.PAR_DO or transform.spec.urn in _WRITES


def _has_effects(transform: _protos.PTransform, read: Set[str]) -> bool:
    """Returns whether a step can have effects outside of the runner: the step declares such
    effects, or no step reads its output.
    """
    if transform.spec.urn in _WRITES or not read & set(transform.outputs.values()):
        return True
    payload = _protos.ParDoPayload.FromString(transform.spec.payload)
    is_source = bool(payload.restriction_coder_id)
    return payload.requires_stable_input or (payload.requests_finalization and not is_source)


def _check_source(transform: _protos.PTransform) -> None:
    """Raises an error if a second reader takes elements away from the first one."""
    urn = transform.spec.urn
    takes = urn == spark_urns.READ_STREAM
    if urn == transform_urns.PAR_DO:
        payload = _protos.ParDoPayload.FromString(transform.spec.payload)
        takes = bool(payload.restriction_coder_id) and payload.requests_finalization
    if takes:
        raise InvalidPipeline(
            f"a shadow run reads the source {transform.unique_name!r} a second time, and the source can"
            " acknowledge elements: if a second reader takes no elements away, as with Kafka, set"
            f" --beam_spark_shadow_reread={transform.unique_name!r}"
        )


def _replace_step(transform: _protos.PTransform, digest: bytes) -> None:
    tag = find_main_input_tag(transform)
    assert tag is not None
    main = transform.inputs[tag]
    transform.inputs.clear()
    transform.inputs[tag] = main
    del transform.subtransforms[:]
    function = _protos.FunctionSpec(urn=python_sdk.PICKLED_DOFN_INFO, payload=digest)
    transform.spec.urn = transform_urns.PAR_DO
    transform.spec.payload = _protos.ParDoPayload(do_fn=function).SerializeToString()
    transform.environment_id = DIGEST_ENVIRONMENT
