"""Identities of stages and buffers: names that stay the same in the plan of an edited pipeline.

An update finds the state and the data of a running job by identity (ADR 0050). The ids of stages
and PCollections are numbers, so an inserted step changes them. An identity contains the full name
of a step:

| a stage reads | identity |
|---|---|
| an impulse | ``begin:STEP``, with the step that the impulse belongs to |
| a buffer of the runner | the buffer's id: ``group:STEP``, ``deal:STEP`` or ``flatten:STEP`` |
| accumulators of a lifted combine | ``lifted:STEP``: the buffer has other values than ``group:STEP`` |
| a stored PCollection | ``stored:STEP``, with the step that reads the PCollection |
| a PCollection by key | ``keyed:STEP``, with the stateful step that reads the PCollection |

Only the first step of a stage counts, because later steps of the stage have no stored data.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from beam_runner_model.buffers import BufferKind
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.fusion import FusedStage

_STORED = "stored"
_MATERIALIZE = "materialize:"


def identify_stage(stage: FusedStage, source_buffer: str | None) -> str:
    """Returns the identity of a stage: a name that the plan of an edited pipeline has, too.

    Args:
        source_buffer: the id of the buffer that the stage reads; None for an impulse.
    """
    if source_buffer is None:
        return f"begin:{stage.source.unique_name}"
    kind, name = source_buffer.split(":", 1)
    if kind == BufferKind.KEYED.value or source_buffer.startswith(_MATERIALIZE):
        head = stage.transforms[0].unique_name if stage.transforms else name
        return f"{kind if kind == BufferKind.KEYED.value else _STORED}:{head}"
    if kind == "group" and _merges_accumulators(stage):
        return f"lifted:{name}"
    return source_buffer


def _merges_accumulators(stage: FusedStage) -> bool:
    (source_id,) = stage.source.outputs.values()
    return any(
        transform.spec.urn == transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS
        and source_id in transform.inputs.values()
        for transform in stage.transforms
    )


def identify_buffers(stages: Iterable[FusedStage], buffer_ids: Iterable[str]) -> dict[str, str]:
    """Maps the id of each buffer to the buffer's identity, which the plan of an edited pipeline has, too.

    The identity of a stored PCollection names the step that makes it, and the output tag:
    ``stored:STEP|TAG``. The copies of the PCollection by window and by key have a prefix.
    """
    makers = _map_pcollections_to_producers(stages)

    def identify_buffer(buffer_id: str) -> str:
        prefix, materialized, pcollection_id = buffer_id.rpartition(_MATERIALIZE)
        if not materialized:
            return buffer_id
        return f"{prefix}{_STORED}:{makers.get(pcollection_id, pcollection_id)}"

    return {buffer_id: identify_buffer(buffer_id) for buffer_id in buffer_ids}


def _map_pcollections_to_producers(stages: Iterable[FusedStage]) -> dict[str, str]:
    """Returns, by PCollection id, the step and the output tag that produce the PCollection."""
    makers: dict[str, str] = {}
    for stage in stages:
        source, payload = stage.source, stage.source.spec.payload.decode()
        if not payload.startswith(_MATERIALIZE):
            _add_outputs(makers, source, payload.partition(":")[2] or source.unique_name)
        for transform in stage.transforms:
            _add_outputs(makers, transform, transform.unique_name)
    return makers


def _add_outputs(makers: dict[str, str], transform: _protos.PTransform, step: str) -> None:
    for tag, pcollection_id in transform.outputs.items():
        makers[pcollection_id] = f"{step}|{quote(tag, safe='')}"
