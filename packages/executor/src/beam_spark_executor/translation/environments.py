"""Which way each SDK environment is run: embedded in the Spark Python worker, or over the Fn API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from apache_beam.transforms.environments import DockerEnvironment, sdk_base_version_capability
from beam_runner_jobservices.records import Artifact as JobArtifact
from beam_runner_urns import artifacts as artifact_urns
from beam_runner_urns import environments as environment_urns
from beam_runner_worker.records import Artifact, Environment

from beam_spark_executor import _protos

MAIN_SESSION = "pickled_main_session"
SUBMISSION_DEPENDENCIES = "submission_environment_dependencies.txt"

# In the order in which alternatives of an anyof are taken. Docker before embedded, since the default
# image counts as embedded anyway, and another image was asked for on purpose.
_PREFERENCE = (
    environment_urns.EXTERNAL,
    environment_urns.PROCESS,
    environment_urns.DOCKER,
    environment_urns.EMBEDDED_PYTHON,
)


@attrs.frozen
class ResolvedEnvironment:
    """An environment of the pipeline after the choice among its alternatives.

    Attributes:
        environment: what the harness gets.
        embedded: whether it runs inside the Spark Python worker.
        rejection: why it can't be run at all, as a clause; empty if it can.
    """

    environment: Environment
    embedded: bool
    rejection: str = ""


def resolve_environments(
    pipeline: _protos.Pipeline, artifacts: Mapping[str, Sequence[JobArtifact]]
) -> dict[str, ResolvedEnvironment]:
    """Chooses for every environment of the pipeline, by its id.

    Args:
        pipeline: with the dependencies of its environments resolved to files of the store.
        artifacts: the stored artifacts by environment id.
    """
    return {
        environment_id: _resolve(proto, artifacts.get(environment_id, ()))
        for environment_id, proto in pipeline.components.environments.items()
    }


def _resolve(proto: _protos.Environment, stored: Sequence[JobArtifact]) -> ResolvedEnvironment:
    chosen = _alternative(proto)
    by_hash = {artifact.sha256: artifact for artifact in stored}
    environment = Environment(
        urn=chosen.urn,
        payload=chosen.payload,
        artifacts=tuple(_artifact(d, by_hash) for d in chosen.dependencies),
    )
    match chosen.urn:
        case environment_urns.EXTERNAL | environment_urns.PROCESS:
            return ResolvedEnvironment(environment, embedded=False)
        case environment_urns.EMBEDDED_PYTHON:
            return ResolvedEnvironment(environment, embedded=True)
        case environment_urns.DOCKER:
            reason = _why_not_embedded(chosen, environment)
            return ResolvedEnvironment(environment, embedded=not reason, rejection=reason)
        case urn:
            return ResolvedEnvironment(environment, False, f"environments of kind {urn!r}")


def _alternative(proto: _protos.Environment) -> _protos.Environment:
    if proto.urn != environment_urns.ANYOF:
        return proto
    alternatives = _protos.AnyOfEnvironmentPayload.FromString(proto.payload).environments
    resolved = [_alternative(alternative) for alternative in alternatives]
    for urn in _PREFERENCE:
        for alternative in resolved:
            if alternative.urn == urn:
                return alternative
    return resolved[0] if resolved else proto


def _why_not_embedded(proto: _protos.Environment, environment: Environment) -> str:
    """Why a docker environment can't be replaced by this very Python, or nothing if it can."""
    image = _protos.DockerPayload.FromString(proto.payload).container_image
    default = DockerEnvironment.default_docker_image()
    if image != default:
        return (
            f"the docker image {image!r} (only the SDK's default image {default!r} is replaced by "
            "the server's own Python; name --environment_type=LOOPBACK, EXTERNAL or PROCESS)"
        )
    capability = sdk_base_version_capability()
    if capability not in proto.capabilities:
        return (
            f"an SDK other than the server's own ({capability.rsplit('/', 1)[-1]}): submit from "
            "the same Python and Beam version, or name --environment_type"
        )
    extra = [
        a.staged_name
        for a in environment.artifacts
        if a.staged_name not in (MAIN_SESSION, SUBMISSION_DEPENDENCIES)
    ]
    if extra:
        return (
            f"staged dependencies without a container ({', '.join(sorted(extra))}): install them "
            "on the server or name --environment_type=LOOPBACK, EXTERNAL or PROCESS"
        )
    return ""


def _artifact(
    dependency: _protos.ArtifactInformation, stored: Mapping[str, JobArtifact]
) -> Artifact:
    name = ""
    if dependency.role_urn == artifact_urns.ROLE_STAGING_TO:
        role = _protos.ArtifactStagingToRolePayload.FromString(dependency.role_payload)
        name = role.staged_name
    sha256 = ""
    if dependency.type_urn == artifact_urns.TYPE_FILE:
        sha256 = _protos.ArtifactFilePayload.FromString(dependency.type_payload).sha256
    if sha256 not in stored:
        raise ValueError(f"artifact {name or dependency.role_urn!r} was never staged")
    return Artifact(
        role_urn=dependency.role_urn,
        role_payload=dependency.role_payload,
        type_urn=dependency.type_urn,
        type_payload=dependency.type_payload,
        staged_name=name,
        sha256=sha256,
    )
