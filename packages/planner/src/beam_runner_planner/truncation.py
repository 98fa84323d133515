"""Truncation in a drain: a stage of one transform, in which an SDK truncates restrictions.

The stage is the one that processes the restrictions, reduced to its first transform, which
truncates instead of processing. Transforms and edges keep their names, so that the harness finds
side inputs.
"""

from __future__ import annotations

from beam_runner_model.stages import HarnessStage, InputEdge, InputKind, OutputEdge, OutputKind
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import TruncationPlan

_WRITE = "truncated/write"
_TRUNCATED = "truncated"


def plan_truncation(
    spec: HarnessStage, environment: _protos.Environment, components: _protos.Components
) -> TruncationPlan | None:
    """Returns the plan for truncating the restrictions that a stage processes; None if the stage
    processes no restrictions.
    """
    if transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.encode() not in spec.descriptor:
        return None  # Return early without parsing a payload, because most stages have no restrictions.
    descriptor = _protos.ProcessBundleDescriptor.FromString(spec.descriptor)
    source = descriptor.transforms[spec.input.transform_id]
    (read,) = source.outputs.values()
    head = next(
        (
            transform_id
            for transform_id, transform in descriptor.transforms.items()
            if transform.spec.urn == transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS
            and read in transform.inputs.values()
        ),
        None,
    )
    if head is None:
        return None
    outputs = descriptor.transforms[head].outputs.values()
    endless = any(
        components.pcollections[p].is_bounded == _protos.IsBounded.UNBOUNDED for p in outputs
    )
    if transform_urns.TRUNCATE_SIZED_RESTRICTION not in environment.capabilities:
        return TruncationPlan(None, endless)
    return TruncationPlan(_build_truncation_stage(spec, descriptor, head, read), endless)


def _build_truncation_stage(
    spec: HarnessStage, descriptor: _protos.ProcessBundleDescriptor, head: str, read: str
) -> HarnessStage:
    source_id = spec.input.transform_id
    for transform_id in set(descriptor.transforms) - {source_id, head}:
        del descriptor.transforms[transform_id]
    truncate = descriptor.transforms[head]
    truncate.spec.urn = transform_urns.TRUNCATE_SIZED_RESTRICTION
    truncate.outputs.clear()
    truncate.outputs["out"] = _TRUNCATED
    descriptor.pcollections[_TRUNCATED].CopyFrom(descriptor.pcollections[read])
    descriptor.pcollections[_TRUNCATED].unique_name = _TRUNCATED
    # The stage itself reads the truncated restrictions, so the restrictions have the coder of the
    # stage's input.
    port = _protos.RemoteGrpcPort.FromString(descriptor.transforms[source_id].spec.payload)
    sink = descriptor.transforms[_WRITE]
    sink.unique_name = _WRITE
    sink.spec.urn = transform_urns.DATA_SINK
    sink.spec.payload = port.SerializeToString()
    sink.inputs["in"] = _TRUNCATED
    used = {p for t in descriptor.transforms.values() for p in t.inputs.values()} | {read}
    for pcollection_id in set(descriptor.pcollections) - used:
        del descriptor.pcollections[pcollection_id]
    stage_id = f"{spec.stage_id}/truncate"
    descriptor.id = stage_id
    return HarnessStage(
        stage_id=stage_id,
        name=spec.name,
        environment_id=spec.environment_id,
        descriptor=descriptor.SerializeToString(deterministic=True),
        input=InputEdge(source_id, InputKind.ELEMENTS),
        outputs=(OutputEdge(_WRITE, OutputKind.ELEMENTS, min_timestamp=True),),
    )
