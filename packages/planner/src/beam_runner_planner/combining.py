"""Expansion of combines: lifted before the shuffle if the result stays the same, otherwise run after a GroupByKey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.context import FusionContext
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.sdks import get_environment, is_python_sdk
from beam_runner_planner.steps import Step
from beam_runner_planner.unlifting import undo_combine_lifting

_LIFTABLE = frozenset(
    {"default", "always", "never", "after_processing_time", "after_synchronized_processing_time"}
)


def expand_combines(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Replaces each CombinePerKey by a GroupByKey and the transforms that combine its values.

    The result is the same whether or not the SDK has lifted the combine.

    Raises:
        UnsupportedPipeline: An SDK has lifted a combine that must not be lifted, and the following
            transforms differ from the transforms that SDKs produce.
    """
    for step in undo_combine_lifting(
        list(steps), lambda step: not _can_combine_before_grouping(step.transform, context)
    ):
        if step.urn == transform_urns.COMBINE_PER_KEY:
            yield from map(Step, _expand_combine(step.transform, context))
            continue
        if step.urn == transform_urns.COMBINE_PER_KEY_PRECOMBINE:
            _check_combine_can_be_lifted(step.transform, context)
        yield step


def _expand_combine(
    transform: _protos.PTransform, context: FusionContext
) -> Iterator[_protos.PTransform]:
    if _can_combine_before_grouping(transform, context):
        return _expand_lifted_combine(transform, context)
    if _can_combine_grouped_values(transform, context):
        return _expand_unlifted_combine(transform, context)
    return _get_expansion_of_sdk(transform, context)


def _check_combine_can_be_lifted(precombine: _protos.PTransform, context: FusionContext) -> None:
    if not _can_combine_before_grouping(precombine, context):
        raise UnsupportedPipeline(
            [
                "a combine that the SDK has lifted before the grouping, although its"
                " unbounded input has merging windows, its groups have the earliest"
                " timestamp, or its trigger counts elements (in"
                f" {precombine.unique_name!r})"
            ]
        )


def _can_combine_before_grouping(transform: _protos.PTransform, context: FusionContext) -> bool:
    """Returns whether elements may be combined before the GroupByKey.

    A precombined element has one timestamp, which holds the watermark for all elements in it. One
    timestamp is not enough in two kinds of streams:

    - Windows merge: the timestamp is at the end of the element's window. The watermark passes that
      end, and the window closes, before the next element arrives that should merge with the window.
    - Panes have the earliest timestamp: the timestamp of a late element must not count. Only the
      grouping stage knows which elements are late.
    """
    (pcollection_id,) = transform.inputs.values()
    pcollection = context.components.pcollections[pcollection_id]
    strategy = context.components.windowing_strategies[pcollection.windowing_strategy_id]
    merges = strategy.merge_status == _protos.MergeStatus.NEEDS_MERGE
    earliest = strategy.output_time == _protos.OutputTime.EARLIEST_IN_PANE
    if (merges or earliest) and pcollection.is_bounded == _protos.IsBounded.UNBOUNDED:
        return False
    return _ignores_element_count(strategy.trigger)


def _can_combine_grouped_values(transform: _protos.PTransform, context: FusionContext) -> bool:
    """Returns whether the SDK supports the transform that combines the values of groups.

    No SDK lists this ability among its capabilities. Python's SDK can. Go's SDK can't: it uses the
    parts of the combine in its own way.
    """
    environment = get_environment(transform, context.components)
    return is_python_sdk(environment) or not transform.subtransforms


def _ignores_element_count(trigger: _protos.Trigger) -> bool:
    """Returns whether a trigger emits the same panes if several elements arrive combined into one
    element.

    The recursion is as deep as the trigger; protobuf limits the depth.
    """
    match trigger.WhichOneof("trigger"):
        case None:
            return True
        case "element_count":
            return bool(trigger.element_count.element_count == 1)
        case "after_end_of_window":
            ends = trigger.after_end_of_window
            return _ignores_element_count(ends.early_firings) and _ignores_element_count(
                ends.late_firings
            )
        case "after_any":
            return all(map(_ignores_element_count, trigger.after_any.subtriggers))
        case "repeat":
            return _ignores_element_count(trigger.repeat.subtrigger)
        case kind:
            return kind in _LIFTABLE


def _expand_lifted_combine(
    transform: _protos.PTransform, context: FusionContext
) -> Iterator[_protos.PTransform]:
    """Returns the steps of a lifted combine: precombine, group, merge accumulators, extract outputs."""
    components = context.components
    name = transform.unique_name
    (input_id,) = transform.inputs.values()
    (output_id,) = transform.outputs.values()
    accumulator_id = _protos.CombinePayload.FromString(transform.spec.payload).accumulator_coder_id
    key_id = components.coders[components.pcollections[input_id].coder_id].component_coder_ids[0]
    several = context.add_coder(coder_urns.ITERABLE, [accumulator_id])
    accumulated = context.add_coder(coder_urns.KV, [key_id, accumulator_id])
    into, out = components.pcollections[input_id], components.pcollections[output_id]
    precombined = context.add_pcollection(f"{name}/Precombine.out", into, coder_id=accumulated)
    grouped = context.add_pcollection(
        f"{name}/Group.out", out, coder_id=context.add_coder(coder_urns.KV, [key_id, several])
    )
    merged = context.add_pcollection(f"{name}/Merge.out", out, coder_id=accumulated)
    yield _create_combine_part(
        context,
        transform,
        "Precombine",
        transform_urns.COMBINE_PER_KEY_PRECOMBINE,
        dict(transform.inputs),
        {"out": precombined},
    )
    yield _create_group_by_key(context, transform, precombined, grouped)
    yield _create_combine_part(
        context,
        transform,
        "Merge",
        transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS,
        {"in": grouped},
        {"out": merged},
    )
    yield _create_combine_part(
        context,
        transform,
        "ExtractOutputs",
        transform_urns.COMBINE_PER_KEY_EXTRACT_OUTPUTS,
        {"in": merged},
        dict(transform.outputs),
    )


def _expand_unlifted_combine(
    transform: _protos.PTransform, context: FusionContext
) -> Iterator[_protos.PTransform]:
    """Returns the steps of an unlifted combine: group, then combine the values of each group."""
    components = context.components
    (input_id,) = transform.inputs.values()
    (output_id,) = transform.outputs.values()
    key_id, value_id = components.coders[
        components.pcollections[input_id].coder_id
    ].component_coder_ids
    values_id = context.add_coder(coder_urns.ITERABLE, [value_id])
    grouped = context.add_pcollection(
        f"{transform.unique_name}/Group.out",
        components.pcollections[output_id],
        coder_id=context.add_coder(coder_urns.KV, [key_id, values_id]),
    )
    yield _create_group_by_key(context, transform, input_id, grouped)
    yield _create_combine_part(
        context,
        transform,
        "Combine",
        transform_urns.COMBINE_GROUPED_VALUES,
        {"in": grouped},
        dict(transform.outputs),
    )


def _get_expansion_of_sdk(
    transform: _protos.PTransform, context: FusionContext
) -> Iterator[_protos.PTransform]:
    """Returns the steps into which the SDK has expanded the combine."""
    for _, part in list_leaf_transforms(transform.subtransforms, context.components):
        part.unique_name = context.create_unique_step_name(part.unique_name)
        yield part


def _create_group_by_key(
    context: FusionContext, transform: _protos.PTransform, input_id: str, output_id: str
) -> _protos.PTransform:
    return _protos.PTransform(
        unique_name=context.create_unique_step_name(f"{transform.unique_name}/Group"),
        spec=_protos.FunctionSpec(urn=transform_urns.GROUP_BY_KEY),
        inputs={"in": input_id},
        outputs={"out": output_id},
    )


def _create_combine_part(
    context: FusionContext,
    transform: _protos.PTransform,
    part: str,
    urn: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
) -> _protos.PTransform:
    return _protos.PTransform(
        unique_name=context.create_unique_step_name(f"{transform.unique_name}/{part}"),
        spec=_protos.FunctionSpec(urn=urn, payload=transform.spec.payload),
        inputs=inputs,
        outputs=outputs,
        annotations=transform.annotations,
        environment_id=transform.environment_id,
    )
