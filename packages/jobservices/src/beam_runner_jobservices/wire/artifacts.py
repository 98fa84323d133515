"""Conversion of messages of the artifact services, and of artifacts in pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_runner_model.jobs import StagedArtifact

from beam_runner_jobservices._protos import (
    DecodeError,
    artifact_roles,
    artifact_types,
    beam_artifact_api_pb2,
    beam_runner_api_pb2,
)
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.staging import (
    Answer,
    ArtifactDependency,
    ContentChunk,
    ContentRequest,
    EmbeddedArtifact,
    FetchableArtifact,
    Request,
    ResolveAnswer,
    ResolveRequest,
    UnresolvedArtifact,
)

FILE_TYPE: str = artifact_types.FILE.urn
_URL_TYPE: str = artifact_types.URL.urn
_EMBEDDED_TYPE: str = artifact_types.EMBEDDED.urn
_STAGING_TO: str = artifact_roles.STAGING_TO.urn


def decode_dependency(information: Any) -> ArtifactDependency:
    """Decodes an `ArtifactInformation`.

    Raises:
        InvalidRequest: the payload doesn't fit its type or role.
    """
    staged_name = ""
    where = f"an artifact of type {information.type_urn!r}"
    if information.role_urn == _STAGING_TO:
        role = parse_payload(
            beam_runner_api_pb2.ArtifactStagingToRolePayload, information.role_payload, where
        )
        staged_name = role.staged_name
    return ArtifactDependency(
        information.type_urn,
        information.type_payload,
        information.role_urn,
        information.role_payload,
        staged_name,
        _decode_source(information, where),
    )


def _decode_source(
    information: Any, where: str
) -> EmbeddedArtifact | FetchableArtifact | UnresolvedArtifact:
    payload = information.type_payload
    if information.type_urn == _EMBEDDED_TYPE:
        return EmbeddedArtifact(
            parse_payload(beam_runner_api_pb2.EmbeddedFilePayload, payload, where).data
        )
    if information.type_urn == FILE_TYPE:
        return FetchableArtifact(
            parse_payload(beam_runner_api_pb2.ArtifactFilePayload, payload, where).sha256
        )
    if information.type_urn == _URL_TYPE:
        return FetchableArtifact(
            parse_payload(beam_runner_api_pb2.ArtifactUrlPayload, payload, where).sha256
        )
    return UnresolvedArtifact()


def parse_payload(kind: Any, payload: bytes, where: str) -> Any:
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        raise InvalidRequest(
            f"{where} has a payload that isn't a {kind.DESCRIPTOR.name}"
        ) from error


def encode_artifact(artifact: StagedArtifact) -> Any:
    payload = beam_runner_api_pb2.ArtifactFilePayload(path=artifact.path, sha256=artifact.sha256)
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=artifact.type_urn,
        type_payload=payload.SerializeToString(),
        role_urn=artifact.role_urn,
        role_payload=artifact.role_payload,
    )


def _encode_dependency(item: ArtifactDependency) -> Any:
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=item.type_urn,
        type_payload=item.type_payload,
        role_urn=item.role_urn,
        role_payload=item.role_payload,
    )


def encode_staging_request(request: Request) -> Any:
    """Encodes the server's next request to the staging client."""
    information = _encode_dependency(request.dependency)
    if isinstance(request, ContentRequest):
        return beam_artifact_api_pb2.ArtifactRequestWrapper(
            get_artifact=beam_artifact_api_pb2.GetArtifactRequest(artifact=information)
        )
    return beam_artifact_api_pb2.ArtifactRequestWrapper(
        resolve_artifact=beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=[information])
    )


def decode_staging_answer(message: Any) -> Answer:
    """Decodes a message of the staging client. A message that only marks the end of a file becomes
    an empty last chunk.
    """
    if message.WhichOneof("response") == "resolve_artifact_response":
        replacements = message.resolve_artifact_response.replacements
        return ResolveAnswer(tuple(decode_dependency(information) for information in replacements))
    return ContentChunk(message.get_artifact_response.data, message.is_last)


def encode_staging_token(token: str) -> Any:
    return beam_artifact_api_pb2.ArtifactResponseWrapper(staging_token=token)


def decode_staging_request(message: Any) -> Request | None:
    """Decodes the server's request on the client's side; returns None for an unknown kind."""
    kind = message.WhichOneof("request")
    if kind == "get_artifact":
        return ContentRequest(decode_dependency(message.get_artifact.artifact))
    if kind == "resolve_artifact" and message.resolve_artifact.artifacts:
        return ResolveRequest(decode_dependency(message.resolve_artifact.artifacts[0]))
    return None


def encode_staging_answer(answer: Answer) -> Any:
    """Encodes the client's answer."""
    if isinstance(answer, ContentChunk):
        return beam_artifact_api_pb2.ArtifactResponseWrapper(
            get_artifact_response=beam_artifact_api_pb2.GetArtifactResponse(data=answer.data),
            is_last=answer.is_last,
        )
    return beam_artifact_api_pb2.ArtifactResponseWrapper(
        resolve_artifact_response=encode_resolve_response(answer.replacements)
    )


def encode_resolve_response(replacements: Iterable[ArtifactDependency]) -> Any:
    return beam_artifact_api_pb2.ResolveArtifactsResponse(
        replacements=[_encode_dependency(item) for item in replacements]
    )


def encode_artifact_request(artifact: StagedArtifact) -> Any:
    return beam_artifact_api_pb2.GetArtifactRequest(artifact=encode_artifact(artifact))


def encode_artifact_response(data: bytes) -> Any:
    return beam_artifact_api_pb2.GetArtifactResponse(data=data)


def get_file_path(item: ArtifactDependency) -> str:
    """Returns the path in a file artifact; '' for any other type."""
    if item.type_urn != FILE_TYPE:
        return ""
    return str(
        parse_payload(beam_runner_api_pb2.ArtifactFilePayload, item.type_payload, str(item)).path
    )
