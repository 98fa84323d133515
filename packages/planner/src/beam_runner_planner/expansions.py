"""Replacement of the transforms that the runner executes itself by transforms that write or read a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import python_sdk
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos, scripts
from beam_runner_planner.context import FusionContext
from beam_runner_planner.leaf_transforms import RESHUFFLES
from beam_runner_planner.steps import (
    IMPULSE_BUFFER,
    Step,
    buffer_id,
    create_buffer_sink,
    create_buffer_source,
)


def expand_shuffles(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Replaces each GroupByKey and each reshuffle by a write to a buffer and a read from the buffer."""
    for step in steps:
        if step.urn == transform_urns.GROUP_BY_KEY:
            kind = "group"
        elif step.urn in RESHUFFLES:
            kind = "deal"
        else:
            yield step
            continue
        (output_id,) = step.outputs
        assert step.main is not None
        context.length_prefix_pcoll_coders(step.main)
        if kind == "group":
            context.length_prefix_pcoll_coders(output_id)
        buffer = buffer_id(kind, step.name)
        yield create_buffer_sink(f"{step.name}/Write", buffer, step.main)
        yield create_buffer_source(f"{step.name}/Read", buffer, output_id)


def expand_flattens(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Replaces each Flatten by writes to one buffer and a read from the buffer; removes a Flatten of
    one input.

    All writers use the coder of the output. A Flatten without inputs reads a buffer without
    writers.
    """
    for step in steps:
        if step.urn != transform_urns.FLATTEN:
            yield step
            continue
        for tag, pcollection_id in sorted(step.transform.inputs.items()):
            recoded = _add_transcoding_step(step, tag, pcollection_id, context)
            if recoded is not None:
                yield recoded
                (step.transform.inputs[tag],) = recoded.outputs
        if len(step.transform.inputs) == 1:
            yield Step(step.transform)
            continue
        (output_id,) = step.outputs
        buffer = buffer_id("flatten", step.name)
        for tag, pcollection_id in sorted(step.transform.inputs.items()):
            yield create_buffer_sink(f"{step.name}/Write/{tag}", buffer, pcollection_id)
        yield create_buffer_source(f"{step.name}/Read", buffer, output_id)


def _add_transcoding_step(
    step: Step, tag: str, pcollection_id: str, context: FusionContext
) -> Step | None:
    """Returns a step that re-encodes an input of a Flatten with the output's coder; None if the coders
    are equal.

    The step is a Flatten of the one input, because every SDK can run a Flatten.
    """
    pcollections = context.components.pcollections
    (output_id,) = step.outputs
    coder_id = pcollections[output_id].coder_id
    if pcollections[pcollection_id].coder_id == coder_id:
        return None
    name = context.create_unique_step_name(f"{step.name}/Transcode/{tag}")
    return Step(
        _protos.PTransform(
            unique_name=name,
            spec=_protos.FunctionSpec(urn=transform_urns.FLATTEN),
            inputs={tag: pcollection_id},
            outputs={
                "out": context.add_pcollection(
                    f"{name}/out", pcollections[pcollection_id], coder_id=coder_id
                )
            },
            environment_id=step.transform.environment_id,
        )
    )


def expand_test_streams(
    steps: Iterable[Step], context: FusionContext, coders: dict[str, str]
) -> Iterator[Step]:
    """Replaces each TestStream by reads from buffers, one for each output. The events of the
    TestStream fill these buffers.

    Args:
        coders: a mapping that this function fills, from the buffer id to the coder of the buffer's
            windowed values.
    """
    for step in steps:
        if step.urn != transform_urns.TEST_STREAM:
            yield step
            continue
        for pcollection_id in sorted(set(step.outputs)):
            buffer = scripts.get_test_stream_buffer_id(pcollection_id)
            coders[buffer] = _get_test_stream_coder_id(context, step.transform, pcollection_id)
            yield create_buffer_source(
                f"{step.name}/Read/{pcollection_id}", buffer.encode(), pcollection_id
            )


def _get_test_stream_coder_id(
    context: FusionContext, transform: _protos.PTransform, pcollection_id: str
) -> str:
    payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
    strategy_id = context.components.pcollections[pcollection_id].windowing_strategy_id
    window_coder_id = context.components.windowing_strategies[strategy_id].window_coder_id
    element_coder_id = context.add_length_prefixed_coder(payload.coder_id)
    return context.add_coder(coder_urns.WINDOWED_VALUE, [element_coder_id, window_coder_id])


def expand_impulses(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Makes each step without an input read the single element of an impulse."""
    for step in steps:
        transform = step.transform
        if step.urn == transform_urns.IMPULSE:
            (output_id,) = step.outputs
            yield create_buffer_source(step.name, IMPULSE_BUFFER, output_id)
        elif transform.inputs or step.reads_buffer:
            yield step
        else:
            output_id = next(iter(step.outputs))
            impulse_id = context.add_pcollection(
                "Impulse",
                context.components.pcollections[output_id],
                coder_id=context.bytes_coder_id,
            )
            if step.urn == transform_urns.READ:
                transform.spec.urn = python_sdk.IMPULSE_READ_TRANSFORM
            transform.inputs["in"] = impulse_id
            yield create_buffer_source(f"{step.name}/Impulse", IMPULSE_BUFFER, impulse_id)
            yield Step(transform)
