"""Conversion of serialized pipelines to descriptions for display. Parts that can't be decoded are left out."""

from __future__ import annotations

from typing import Any

from beam_runner_jobservices._protos import (
    DecodeError,
    beam_runner_api_pb2,
    display_data,
    environments,
    primitives,
    windows_pb2,
)
from beam_runner_jobservices.description import (
    EnvironmentDescription,
    PCollectionDescription,
    PipelineDescription,
    StepDescription,
)
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.step_names import StepNames

_PAR_DO: str = primitives.PAR_DO.urn
_LABELLED: str = display_data.LABELLED.urn
_BOUNDED = beam_runner_api_pb2.IsBounded.BOUNDED
_CODER_DEPTH = 6


def describe_pipeline(pipeline: bytes) -> PipelineDescription:
    """Returns the description of a serialized `beam_runner_api.Pipeline`.

    Raises:
        InvalidRequest: the bytes are not a pipeline.
    """
    message = _try_parse(beam_runner_api_pb2.Pipeline, pipeline)
    if message is None:
        raise InvalidRequest("Can't parse the pipeline: not a message of the Beam model")
    components = message.components
    parents = {
        child: key for key, node in components.transforms.items() for child in node.subtransforms
    }
    return PipelineDescription(
        roots=tuple(message.root_transform_ids),
        steps={
            key: _describe_step(key, node, parents.get(key, ""))
            for key, node in components.transforms.items()
        },
        pcollections={
            key: PCollectionDescription(
                node.unique_name,
                _describe_coder(node.coder_id, components.coders, _CODER_DEPTH),
                _describe_windows(components.windowing_strategies.get(node.windowing_strategy_id)),
                node.is_bounded == _BOUNDED,
            )
            for key, node in components.pcollections.items()
        },
        environments={
            key: EnvironmentDescription(node.urn, _describe_environment(node))
            for key, node in components.environments.items()
        },
    )


def read_step_names(pipeline: bytes) -> StepNames:
    """Returns the step names of a serialized `beam_runner_api.Pipeline`; no names if the bytes are not a pipeline."""
    message = _try_parse(beam_runner_api_pb2.Pipeline, pipeline)
    transforms = {} if message is None else message.components.transforms
    return StepNames({key: node.unique_name for key, node in transforms.items()})


def _describe_step(key: str, node: Any, parent: str) -> StepDescription:
    return StepDescription(
        transform_id=key,
        name=node.unique_name,
        urn=node.spec.urn,
        parent=parent,
        subtransforms=tuple(node.subtransforms),
        inputs=dict(node.inputs),
        outputs=dict(node.outputs),
        side_inputs=_find_side_inputs(node),
        environment_id=node.environment_id,
        display=tuple(_read_display_data(node.display_data)),
    )


def _find_side_inputs(node: Any) -> frozenset[str]:
    if node.spec.urn != _PAR_DO:
        return frozenset()
    payload = _try_parse(beam_runner_api_pb2.ParDoPayload, node.spec.payload)
    return frozenset() if payload is None else frozenset(payload.side_inputs)


def _read_display_data(items: Any) -> list[tuple[str, str]]:
    shown = []
    for item in items:
        labelled = (
            _try_parse(beam_runner_api_pb2.LabelledPayload, item.payload)
            if item.urn == _LABELLED
            else None
        )
        if labelled is not None:
            value = labelled.WhichOneof("value")
            text = "" if value is None else str(getattr(labelled, value))
            shown.append((labelled.label or labelled.key, text))
    return shown


def _describe_coder(coder_id: str, coders: Any, depth: int) -> str:
    """Returns a readable form of a coder, such as `kv<string_utf8, varint>`. A coder of an SDK has the
    name in its URN.
    """
    if coder_id not in coders or not depth:
        return "..."
    coder = coders[coder_id]
    parts = [_describe_coder(part, coders, depth - 1) for part in coder.component_coder_ids]
    name = _extract_urn_name(coder.spec.urn)
    return f"{name}<{', '.join(parts)}>" if parts else name


def _describe_windows(strategy: Any) -> str:
    if strategy is None:
        return ""
    urn = strategy.window_fn.urn
    name = _extract_urn_name(urn).replace("_", " ")
    if "fixed" in urn and (
        fixed := _try_parse(windows_pb2.FixedWindowsPayload, strategy.window_fn.payload)
    ):
        name += f" of {_format_seconds(fixed.size)}"
    elif "sliding" in urn and (
        sliding := _try_parse(windows_pb2.SlidingWindowsPayload, strategy.window_fn.payload)
    ):
        name += f" of {_format_seconds(sliding.size)} every {_format_seconds(sliding.period)}"
    elif "session" in urn and (
        session := _try_parse(windows_pb2.SessionWindowsPayload, strategy.window_fn.payload)
    ):
        name += f" with a gap of {_format_seconds(session.gap_size)}"
    trigger = strategy.trigger.WhichOneof("trigger") or "default"
    return name if trigger == "default" else f"{name}, trigger {trigger.replace('_', ' ')}"


def _format_seconds(duration: Any) -> str:
    return f"{duration.ToMilliseconds() / 1000:g} s"


def _describe_environment(node: Any) -> str:
    kinds = {
        environments.DOCKER.urn: (beam_runner_api_pb2.DockerPayload, "container_image"),
        environments.PROCESS.urn: (beam_runner_api_pb2.ProcessPayload, "command"),
    }
    if node.urn in kinds:
        kind, field = kinds[node.urn]
        payload = _try_parse(kind, node.payload)
        return "" if payload is None else str(getattr(payload, field))
    if node.urn == environments.EXTERNAL.urn:
        external = _try_parse(beam_runner_api_pb2.ExternalPayload, node.payload)
        return "" if external is None else str(external.endpoint.url)
    return ""


def _extract_urn_name(urn: str) -> str:
    """Returns the name in a URN, such as `varint` in `beam:coder:varint:v1`."""
    parts = urn.split(":")
    return parts[-2] if len(parts) > 2 else urn


def _try_parse(kind: Any, payload: bytes) -> Any:
    try:
        return kind.FromString(payload)
    except DecodeError:
        return None
