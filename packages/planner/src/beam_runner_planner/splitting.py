"""Expansion of splittable DoFns: pair with restrictions, split, redistribute, and process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.context import FusionContext
from beam_runner_planner.side_inputs import find_main_input_tag
from beam_runner_planner.steps import Step


def expand_splittable_dofns(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Replaces each splittable DoFn by its four transforms."""
    for step in steps:
        restriction_id = ""
        if step.urn == transform_urns.PAR_DO:
            payload = _protos.ParDoPayload.FromString(step.transform.spec.payload)
            restriction_id = payload.restriction_coder_id
        if restriction_id:
            yield from _expand_splittable_dofn(step, restriction_id, context)
        else:
            yield step


def _expand_splittable_dofn(
    step: Step, restriction_id: str, context: FusionContext
) -> Iterator[Step]:
    transform = step.transform
    tag = find_main_input_tag(transform)
    assert tag is not None
    main = transform.inputs[tag]
    elements = context.components.pcollections[main]
    paired_coder = context.add_coder(coder_urns.KV, [elements.coder_id, restriction_id])
    sizes = context.add_coder(coder_urns.DOUBLE, [])
    sized_coder = context.add_coder(coder_urns.KV, [paired_coder, sizes])
    paired = context.add_pcollection(f"{main}_paired", elements, coder_id=paired_coder)
    split = context.add_pcollection(f"{main}_split", elements, coder_id=sized_coder)
    dealt = context.add_pcollection(f"{main}_reshuffle", elements, coder_id=sized_coder)

    def add_part(name: str, urn: str, reads: str, writes: str | None) -> Step:
        made = _protos.PTransform()
        made.CopyFrom(transform)
        made.unique_name = context.create_unique_step_name(f"{transform.unique_name}/{name}")
        made.spec.urn = urn
        made.inputs[tag] = reads
        if writes is not None:
            made.outputs.clear()
            made.outputs["out"] = writes
        return Step(made)

    yield add_part("PairWithRestriction", transform_urns.PAIR_WITH_RESTRICTION, main, paired)
    yield add_part(
        "SplitAndSizeRestriction", transform_urns.SPLIT_AND_SIZE_RESTRICTIONS, paired, split
    )
    yield Step(
        _protos.PTransform(
            unique_name=context.create_unique_step_name(f"{transform.unique_name}/Reshuffle"),
            spec=_protos.FunctionSpec(urn=transform_urns.RESHUFFLE),
            inputs={"in": split},
            outputs={"out": dealt},
        )
    )
    yield add_part("Process", transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS, dealt, None)
