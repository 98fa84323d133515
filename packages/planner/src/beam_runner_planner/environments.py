"""Choice of how to run each SDK environment: embedded in the Spark Python worker, or over the Fn API.

| environment | how the runner runs it |
|---|---|
| EXTERNAL, PROCESS | as specified, over the Fn API |
| DOCKER that the user names, with another image or SDK | in a container over the Fn API if Docker is available; otherwise rejected |
| DOCKER with the SDK's default image; embedded Python | embedded; in a separate Python process if the job installs packages |
| embedded Python over gRPC | in a separate process of the server's Python, over the Fn API |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from apache_beam.transforms.environments import DockerEnvironment
from beam_runner_model.jobs import StagedArtifact
from beam_runner_model.staged_packages import has_packages
from beam_runner_model.stages import Artifact, Environment
from beam_runner_urns import artifacts as artifact_urns
from beam_runner_urns import environments as environment_urns
from beam_runner_urns import options as option_urns
from beam_runner_urns import protocols as protocol_urns

from beam_runner_planner import _protos
from beam_runner_planner.docker_check import find_docker_problem
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.sdks import describe_versions, has_server_versions

_PYTHON_SDK = f"{protocol_urns.SDK_BASE_VERSION_PREFIX}apache/beam_python"

# The alternatives of an anyOf environment, best first. Docker comes before embedded, because the
# runner replaces the SDK's default image with the embedded harness anyway, and a user who names
# another image wants that image.
_PREFERENCE = (
    environment_urns.EXTERNAL,
    environment_urns.PROCESS,
    environment_urns.DOCKER,
    environment_urns.EMBEDDED_PYTHON,
)
_ANYOF_DEPTH = 8


@attrs.frozen
class ResolvedEnvironment:
    """Environment of the pipeline, after the runner has chosen one of the environment's
    alternatives.

    Attributes:
        environment: the environment that the harness gets.
        embedded: whether the environment runs inside the Spark Python worker.
        in_client: whether all harnesses of the environment are threads of the client's Python
            interpreter.
        rejection: the reason why the environment can't run, as a clause; empty if the environment
            can run.
    """

    environment: Environment
    embedded: bool
    rejection: str = ""
    in_client: bool = False


def resolve_environments(
    pipeline: _protos.Pipeline,
    artifacts: Mapping[str, Sequence[StagedArtifact]],
    options_json: str = "",
) -> dict[str, ResolvedEnvironment]:
    """Returns the chosen environment for each environment id of the pipeline.

    Args:
        pipeline: a pipeline whose environments' dependencies are files of the artifact store.
        artifacts: the stored artifacts by environment id.
        options_json: the pipeline's options, a JSON object.

    Raises:
        InvalidPipeline: a payload can't be parsed, or an artifact is missing.
    """
    options = json.loads(options_json or "{}")
    resolved = {}
    for environment_id, proto in pipeline.components.environments.items():
        try:
            stored = artifacts.get(environment_id, ())
            resolved[environment_id] = _resolve_environment(proto, stored, options)
        except _protos.DecodeError as error:
            raise InvalidPipeline(
                f"the environment {environment_id!r} has a payload, or artifacts with"
                f" payloads, that don't match {proto.urn!r}"
            ) from error
    return resolved


def get_option_value(options: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a pipeline option, or None if the option is not set."""
    return options.get(f"{option_urns.PREFIX}{name}{option_urns.SUFFIX}", options.get(name))


def list_requested_experiments(options: Mapping[str, Any]) -> list[str]:
    """Returns the experiments in a pipeline's options."""
    asked = get_option_value(options, "experiments")
    return [one for one in asked if isinstance(one, str)] if isinstance(asked, list) else []


def _is_docker_requested(options: Mapping[str, Any]) -> bool:
    """Returns whether the user chose Docker; the SDK sends Docker as its default, too."""
    return get_option_value(options, "environment_type") in ("DOCKER", environment_urns.DOCKER)


def _is_client_thread_pool(proto: _protos.Environment, options: Mapping[str, Any]) -> bool:
    """Returns whether the workers of an external pool are threads of the Python program that submits the job."""
    return (
        get_option_value(options, "environment_type") == "LOOPBACK"
        and any(capability.startswith(_PYTHON_SDK) for capability in proto.capabilities)
        and "use_loopback_process_worker" not in list_requested_experiments(options)
    )


def _resolve_environment(
    proto: _protos.Environment, stored: Sequence[StagedArtifact], options: Mapping[str, Any]
) -> ResolvedEnvironment:
    chosen = _choose_alternative(proto)
    by_hash = {artifact.sha256: artifact for artifact in stored}
    environment = Environment(
        urn=chosen.urn,
        payload=chosen.payload,
        artifacts=tuple(_convert_staged_artifact(d, by_hash) for d in chosen.dependencies),
    )
    match chosen.urn:
        case environment_urns.EXTERNAL:
            in_client = _is_client_thread_pool(proto, options)
            return ResolvedEnvironment(environment, embedded=False, in_client=in_client)
        case environment_urns.PROCESS:
            return ResolvedEnvironment(environment, embedded=False)
        case environment_urns.EMBEDDED_PYTHON:
            return _choose_python_of_server(environment)
        case environment_urns.EMBEDDED_PYTHON_GRPC:
            return _choose_separate_process(environment)
        case environment_urns.DOCKER:
            reason = (
                _NAMED if _is_docker_requested(options) else _find_reason_against_embedding(chosen)
            )
            if not reason:
                return _choose_python_of_server(environment)
            missing = find_docker_problem()
            if not missing:
                return ResolvedEnvironment(environment, embedded=False)
            image = _protos.DockerPayload.FromString(chosen.payload).container_image
            return ResolvedEnvironment(
                environment,
                False,
                f"the Docker image {image!r}, because {missing}: {describe_versions(proto)}; {reason}",
            )
        case urn:
            return ResolvedEnvironment(environment, False, f"environments of kind {urn!r}")


def _choose_python_of_server(environment: Environment) -> ResolvedEnvironment:
    """Returns the embedded environment, or a separate Python process if packages must be installed."""
    if has_packages(environment.artifacts):
        return _choose_separate_process(environment)
    return ResolvedEnvironment(environment, embedded=True)


def _choose_separate_process(environment: Environment) -> ResolvedEnvironment:
    other = attrs.evolve(environment, urn=environment_urns.EMBEDDED_PYTHON, payload=b"")
    return ResolvedEnvironment(other, embedded=False)


def _choose_alternative(proto: _protos.Environment, depth: int = 0) -> _protos.Environment:
    if proto.urn != environment_urns.ANYOF:
        return proto
    if depth == _ANYOF_DEPTH:
        raise InvalidPipeline("an environment has too many levels of nested alternatives")
    alternatives = _protos.AnyOfEnvironmentPayload.FromString(proto.payload).environments
    resolved = [_choose_alternative(alternative, depth + 1) for alternative in alternatives]
    for urn in _PREFERENCE:
        for alternative in resolved:
            if alternative.urn == urn:
                return alternative
    return resolved[0] if resolved else proto


_NAMED = (
    "install docker, or leave out --environment_type=DOCKER: the server's own Python"
    " runs pipelines that need only the SDK's default image"
)
_OTHER_IMAGE = (
    "the server's own Python replaces only the SDK's default image of the same"
    " versions: submit with the server's versions, install docker, or set"
    " --environment_type=LOOPBACK, EXTERNAL or PROCESS"
)


def _find_reason_against_embedding(proto: _protos.Environment) -> str:
    """Returns the reason why a Docker environment can't be replaced by the server's own Python; an
    empty text if replacing is possible.
    """
    image = _protos.DockerPayload.FromString(proto.payload).container_image
    own = image == DockerEnvironment.default_docker_image() and has_server_versions(proto)
    return "" if own else _OTHER_IMAGE


def _convert_staged_artifact(
    dependency: _protos.ArtifactInformation, stored: Mapping[str, StagedArtifact]
) -> Artifact:
    name = ""
    if dependency.role_urn == artifact_urns.ROLE_STAGING_TO:
        role = _protos.ArtifactStagingToRolePayload.FromString(dependency.role_payload)
        name = role.staged_name
    sha256 = ""
    if dependency.type_urn == artifact_urns.TYPE_FILE:
        sha256 = _protos.ArtifactFilePayload.FromString(dependency.type_payload).sha256
    if sha256 not in stored:
        raise InvalidPipeline(f"the artifact {name or dependency.role_urn!r} isn't staged")
    return Artifact(
        role_urn=dependency.role_urn,
        role_payload=dependency.role_payload,
        type_urn=dependency.type_urn,
        type_payload=dependency.type_payload,
        staged_name=name,
        sha256=sha256,
    )
