"""Combines: before the shuffle where that changes nothing, else behind a GroupByKey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation.context import Context
from beam_spark_executor.translation.leaves import leaves
from beam_spark_executor.translation.sdks import environment_of, is_of_python
from beam_spark_executor.translation.steps import Step

_LIFTABLE = frozenset(
    {"default", "always", "never", "after_processing_time", "after_synchronized_processing_time"}
)


def expand_combines(steps: Iterable[Step], context: Context) -> Iterator[Step]:
    """A phase: makes of each CombinePerKey what runs.

    A stream that wants the earliest timestamp of a pane does not want that of late elements, so
    none may be combined with others before it is known which are late. Whether the SDK has lifted
    the combine already does not matter.
    """
    for step in steps:
        if step.urn != transform_urns.COMBINE_PER_KEY:
            yield step
        elif _may_lift(step.transform, context):
            yield from map(Step, _lifted(step.transform, context))
        elif _combines_groups(step.transform, context):
            yield from map(Step, _grouped(step.transform, context))
        else:
            yield from map(Step, _as_expanded(step.transform, context))


def _may_lift(transform: _protos.PTransform, context: Context) -> bool:
    (pcollection_id,) = transform.inputs.values()
    pcollection = context.components.pcollections[pcollection_id]
    strategy = context.components.windowing_strategies[pcollection.windowing_strategy_id]
    unbounded = pcollection.is_bounded == _protos.IsBounded.UNBOUNDED
    if unbounded and strategy.output_time == _protos.OutputTime.EARLIEST_IN_PANE:
        return False
    return _counts_no_elements(strategy.trigger)


def _combines_groups(transform: _protos.PTransform, context: Context) -> bool:
    """Whether the SDK can be asked to combine the values of groups.

    No SDK says so among its capabilities. Python's can; Go's can't, and has its own way in the parts.
    """
    environment = environment_of(transform, context.components)
    return is_of_python(environment) or not transform.subtransforms


def _counts_no_elements(trigger: _protos.Trigger) -> bool:
    """Whether a trigger may see several elements as one. As deep as protobuf lets triggers be."""
    match trigger.WhichOneof("trigger"):
        case None:
            return True
        case "element_count":
            return bool(trigger.element_count.element_count == 1)
        case "after_end_of_window":
            ends = trigger.after_end_of_window
            return _counts_no_elements(ends.early_firings) and _counts_no_elements(
                ends.late_firings
            )
        case "after_any":
            return all(map(_counts_no_elements, trigger.after_any.subtriggers))
        case "repeat":
            return _counts_no_elements(trigger.repeat.subtrigger)
        case kind:
            return kind in _LIFTABLE


def _lifted(transform: _protos.PTransform, context: Context) -> Iterator[_protos.PTransform]:
    """Precombine, group, merge accumulators, extract outputs."""
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
    yield _part(
        context,
        transform,
        "Precombine",
        transform_urns.COMBINE_PER_KEY_PRECOMBINE,
        dict(transform.inputs),
        {"out": precombined},
    )
    yield _group(context, transform, precombined, grouped)
    yield _part(
        context,
        transform,
        "Merge",
        transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS,
        {"in": grouped},
        {"out": merged},
    )
    yield _part(
        context,
        transform,
        "ExtractOutputs",
        transform_urns.COMBINE_PER_KEY_EXTRACT_OUTPUTS,
        {"in": merged},
        dict(transform.outputs),
    )


def _grouped(transform: _protos.PTransform, context: Context) -> Iterator[_protos.PTransform]:
    """Group, combine the values of each group."""
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
    yield _group(context, transform, input_id, grouped)
    yield _part(
        context,
        transform,
        "Combine",
        transform_urns.COMBINE_GROUPED_VALUES,
        {"in": grouped},
        dict(transform.outputs),
    )


def _as_expanded(transform: _protos.PTransform, context: Context) -> Iterator[_protos.PTransform]:
    """The parts that the SDK has made of it."""
    for _, part in leaves(transform.subtransforms, context.components):
        part.unique_name = context.new_name(part.unique_name)
        yield part


def _group(
    context: Context, transform: _protos.PTransform, input_id: str, output_id: str
) -> _protos.PTransform:
    return _protos.PTransform(
        unique_name=context.new_name(f"{transform.unique_name}/Group"),
        spec=_protos.FunctionSpec(urn=transform_urns.GROUP_BY_KEY),
        inputs={"in": input_id},
        outputs={"out": output_id},
    )


def _part(
    context: Context,
    transform: _protos.PTransform,
    part: str,
    urn: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
) -> _protos.PTransform:
    return _protos.PTransform(
        unique_name=context.new_name(f"{transform.unique_name}/{part}"),
        spec=_protos.FunctionSpec(urn=urn, payload=transform.spec.payload),
        inputs=inputs,
        outputs=outputs,
        annotations=transform.annotations,
        environment_id=transform.environment_id,
    )
