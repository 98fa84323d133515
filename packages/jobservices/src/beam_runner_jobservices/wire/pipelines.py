"""Decoding of submitted pipelines: checks their references, lists their artifact dependencies, and
replaces the dependencies by staged artifacts.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from beam_runner_jobservices._protos import (
    DecodeError,
    Message,
    beam_runner_api_pb2,
    composites,
    environments,
    json_format,
    primitives,
)
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.graph import (
    PCollectionNode,
    PipelineGraph,
    TransformNode,
    WindowingNode,
)
from beam_runner_jobservices.graph_checks import check_graph
from beam_runner_jobservices.sizes import PIPELINE_LIMITS
from beam_runner_jobservices.staging import ArtifactDependency, Staged
from beam_runner_jobservices.wire.artifacts import decode_dependency, encode_artifact, parse_payload

_ANYOF: str = environments.ANYOF.urn
_ANYOF_DEPTH = 8
_QUICKLY = 1
_PAR_DO: str = primitives.PAR_DO.urn
_PAYLOADS = {
    _PAR_DO: beam_runner_api_pb2.ParDoPayload,
    composites.COMBINE_PER_KEY.urn: beam_runner_api_pb2.CombinePayload,
    composites.COMBINE_GLOBALLY.urn: beam_runner_api_pb2.CombinePayload,
}


def _compress_text(content: bytes) -> bytes:
    return zlib.compress(content, _QUICKLY)


def _measure_artifacts_size(dependencies: Mapping[str, tuple[ArtifactDependency, ...]]) -> int:
    named = (item for items in dependencies.values() for item in items)
    return 2 * sum(len(item.type_payload) + len(item.role_payload) for item in named)


@attrs.frozen
class PrepareRequest:
    """A Prepare request with a checked pipeline; `dependencies` are by environment id.

    The request can wait for the Run call for an hour, so the pipeline and the options are
    compressed. Each access to `pipeline`, `options` or `options_json` (the options Struct as JSON
    text) decompresses them.
    """

    job_name: str
    dependencies: Mapping[str, tuple[ArtifactDependency, ...]]
    _pipeline: bytes = attrs.field(repr=False, converter=_compress_text)
    _options_json: bytes = attrs.field(repr=False, converter=_compress_text)
    size: int
    """The approximate memory that the request needs as a job, in bytes."""

    @property
    def pipeline(self) -> bytes:
        """The serialized pipeline."""
        return zlib.decompress(self._pipeline)

    @property
    def options_json(self) -> str:
        return zlib.decompress(self._options_json).decode("utf-8", "surrogatepass")

    @property
    def options(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] = json.loads(self.options_json)
        return options

    @property
    def held(self) -> int:
        """The approximate memory of the waiting request, in bytes."""
        packed = len(self._pipeline) + len(self._options_json)
        return packed + len(self.job_name) + _measure_artifacts_size(self.dependencies)


def decode_prepare_request(message: Any) -> PrepareRequest:
    """Decodes and checks a `PrepareJobRequest`.

    Raises:
        InvalidRequest: the request has no pipeline, a payload can't be parsed, the pipeline is
            malformed (see `graph_checks.check_graph`), or the job's name is too long.
    """
    pipeline = message.pipeline
    if len(message.job_name) > PIPELINE_LIMITS.job_name_chars:
        raise InvalidRequest(
            f"the job's name has {len(message.job_name)} characters; the maximum is"
            f" {PIPELINE_LIMITS.job_name_chars}"
        )
    if not pipeline.HasField("components"):
        raise InvalidRequest("the request has no pipeline, or its pipeline has no components")
    check_graph(read_pipeline_graph(pipeline))
    try:
        options_json = json_format.MessageToJson(message.pipeline_options, ensure_ascii=False)
    except (json_format.Error, ValueError) as error:
        raise InvalidRequest(f"Can't write the pipeline options as JSON: {error}") from error
    dependencies = {
        environment_id: tuple(dict.fromkeys(_read_dependencies(environment_id, environment, 0)))
        for environment_id, environment in pipeline.components.environments.items()
    }
    content = pipeline.SerializeToString()
    return PrepareRequest(
        job_name=message.job_name,
        dependencies=dependencies,
        pipeline=content,
        options_json=options_json.encode("utf-8", "surrogatepass"),
        size=len(content) + 4 * len(options_json) + _measure_artifacts_size(dependencies),
    )


def check_pipeline(data: bytes) -> None:
    """Checks the size of a serialized pipeline, and the references between its components.

    Raises:
        InvalidRequest: the bytes can't be parsed, or the text names the first few problems.
    """
    try:
        pipeline = beam_runner_api_pb2.Pipeline.FromString(data)
    except DecodeError as error:
        raise InvalidRequest("Can't parse the pipeline: not a message of the Beam model") from error
    check_graph(read_pipeline_graph(pipeline))


def read_pipeline_graph(pipeline: Any) -> PipelineGraph:
    """Returns each component of a `beam_runner_api.Pipeline`, with the ids to which the component
    refers.

    Raises:
        InvalidRequest: the payload of a transform can't be parsed; the text names the transform.
    """
    components = pipeline.components
    return PipelineGraph(
        roots=tuple(pipeline.root_transform_ids),
        transforms={key: _read_transform(node) for key, node in components.transforms.items()},
        pcollections={
            key: PCollectionNode(node.coder_id, node.windowing_strategy_id)
            for key, node in components.pcollections.items()
        },
        windowings={
            key: WindowingNode(node.window_coder_id, node.environment_id)
            for key, node in components.windowing_strategies.items()
        },
        coders={key: tuple(node.component_coder_ids) for key, node in components.coders.items()},
        environments=frozenset(components.environments),
    )


def _read_transform(transform: Any) -> TransformNode:
    coder_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    if transform.spec.urn in _PAYLOADS:
        try:
            payload = _PAYLOADS[transform.spec.urn].FromString(transform.spec.payload)
        except DecodeError as error:
            raise InvalidRequest(
                f"transform {transform.unique_name!r} has a payload that doesn't match"
                f" {transform.spec.urn}"
            ) from error
        coder_ids = tuple(dict.fromkeys(_find_coder_ids(payload)))
        if transform.spec.urn == _PAR_DO:
            tags = tuple(payload.side_inputs)
    return TransformNode(
        name=transform.unique_name,
        subtransforms=tuple(transform.subtransforms),
        inputs=dict(transform.inputs),
        outputs=dict(transform.outputs),
        environment_id=transform.environment_id,
        payload_coder_ids=coder_ids,
        side_input_tags=tags,
    )


def _find_coder_ids(message: Message) -> Iterator[str]:
    """Yields the coder ids in all fields of a message, at any depth.

    The function doesn't read bytes fields: reading copies them, and a serialized user function can
    have hundreds of megabytes.
    """
    for field in message.DESCRIPTOR.fields:
        if field.message_type is None and not field.name.endswith("coder_id"):
            continue
        value = getattr(message, field.name)
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, Message):
            if message.HasField(field.name):
                yield from _find_coder_ids(value)
        elif field.message_type.GetOptions().map_entry:
            for entry in value.values():
                if isinstance(entry, Message):
                    yield from _find_coder_ids(entry)
        else:
            for child in value:
                yield from _find_coder_ids(child)


def _read_dependencies(
    environment_id: str, environment: Any, depth: int
) -> Iterator[ArtifactDependency]:
    for information in environment.dependencies:
        yield decode_dependency(information)
    for alternative in _list_alternatives(environment_id, environment, depth):
        yield from _read_dependencies(environment_id, alternative, depth + 1)


def _list_alternatives(environment_id: str, environment: Any, depth: int) -> list[Any]:
    if environment.urn != _ANYOF:
        return []
    if depth == _ANYOF_DEPTH:
        raise InvalidRequest(
            f"environment {environment_id!r} has too many levels of nested alternatives"
        )
    payload = parse_payload(
        beam_runner_api_pb2.AnyOfEnvironmentPayload,
        environment.payload,
        f"environment {environment_id!r}",
    )
    return list(payload.environments)


def find_dependencies(pipeline: bytes) -> frozenset[ArtifactDependency]:
    """Returns the dependencies of all environments of a serialized pipeline."""
    message = beam_runner_api_pb2.Pipeline.FromString(pipeline)
    return frozenset(
        item
        for environment_id, environment in message.components.environments.items()
        for item in _read_dependencies(environment_id, environment, 0)
    )


def replace_dependencies(pipeline: bytes, staged: Staged) -> bytes:
    """Returns the serialized pipeline, in which staged artifacts replace the dependencies of each environment."""
    if not staged:
        return pipeline
    message = beam_runner_api_pb2.Pipeline.FromString(pipeline)
    for environment_id, environment in message.components.environments.items():
        _replace_dependencies(environment_id, environment, staged, 0)
    return bytes(message.SerializeToString())


def _replace_dependencies(
    environment_id: str, environment: Any, staged: Staged, depth: int
) -> None:
    replaced = [
        encode_artifact(artifact)
        for information in environment.dependencies
        for artifact in staged[decode_dependency(information)]
    ]
    del environment.dependencies[:]
    environment.dependencies.extend(replaced)
    alternatives = _list_alternatives(environment_id, environment, depth)
    if alternatives:
        for alternative in alternatives:
            _replace_dependencies(environment_id, alternative, staged, depth + 1)
        environment.payload = beam_runner_api_pb2.AnyOfEnvironmentPayload(
            environments=alternatives
        ).SerializeToString()
