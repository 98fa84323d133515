"""Which environments run embedded, which outside, and which not at all, and why."""

from __future__ import annotations

import pytest
from apache_beam.transforms.environments import (
    AnyOfEnvironment,
    DockerEnvironment,
    EmbeddedPythonEnvironment,
    Environment,
    ExternalEnvironment,
    ProcessEnvironment,
    SubprocessSDKEnvironment,
    python_sdk_capabilities,
)
from beam_runner_jobservices.records import Artifact
from beam_runner_urns import environments as environment_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation.environments import (
    MAIN_SESSION,
    SUBMISSION_DEPENDENCIES,
    ResolvedEnvironment,
    resolve_environments,
)

CAPABILITIES = python_sdk_capabilities()
DEFAULT = DockerEnvironment.from_container_image(
    DockerEnvironment.default_docker_image()
).container_image


def docker(image: str = DEFAULT, capabilities: list[str] = CAPABILITIES) -> Environment:
    return DockerEnvironment(container_image=image, capabilities=capabilities)


def external() -> Environment:
    return ExternalEnvironment("localhost:1", capabilities=CAPABILITIES)


def process() -> Environment:
    return ProcessEnvironment("/boot", capabilities=CAPABILITIES)


def embedded() -> Environment:
    return EmbeddedPythonEnvironment(capabilities=CAPABILITIES)


def resolved(environment: Environment, *staged: str) -> ResolvedEnvironment:
    """The decision about an environment with some staged files."""
    pipeline = _protos.Pipeline()
    proto = pipeline.components.environments["env"]
    proto.CopyFrom(environment.to_runner_api(None))
    del proto.dependencies[:]
    holders = [proto]
    if proto.urn == environment_urns.ANYOF:
        payload = _protos.AnyOfEnvironmentPayload.FromString(proto.payload)
        holders = list(payload.environments)
    for holder in holders:
        for name in staged:
            holder.dependencies.add(
                type_urn="beam:artifact:type:file:v1",
                type_payload=_protos.ArtifactFilePayload(sha256=f"hash-{name}").SerializeToString(),
                role_urn="beam:artifact:role:staging_to:v1",
                role_payload=_protos.ArtifactStagingToRolePayload(
                    staged_name=name
                ).SerializeToString(),
            )
    if proto.urn == environment_urns.ANYOF:
        proto.payload = payload.SerializeToString()
    artifacts = [
        Artifact("", "beam:artifact:role:staging_to:v1", b"", name, f"hash-{name}", 1, "/x")
        for name in staged
    ]
    return resolve_environments(pipeline, {"env": artifacts})["env"]


@pytest.mark.parametrize(
    ("environment", "urn", "is_embedded"),
    [
        (embedded(), environment_urns.EMBEDDED_PYTHON, True),
        (docker(), environment_urns.DOCKER, True),
        (external(), environment_urns.EXTERNAL, False),
        (process(), environment_urns.PROCESS, False),
        (AnyOfEnvironment([docker(), external()]), environment_urns.EXTERNAL, False),
        (AnyOfEnvironment([docker(), process()]), environment_urns.PROCESS, False),
        (AnyOfEnvironment([embedded(), process()]), environment_urns.PROCESS, False),
        (AnyOfEnvironment([embedded(), docker()]), environment_urns.DOCKER, True),
        (
            AnyOfEnvironment([AnyOfEnvironment([docker(), embedded()]), external()]),
            environment_urns.EXTERNAL,
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_choices(environment: Environment, urn: str, is_embedded: bool) -> None:
    decision = resolved(environment)
    assert decision.environment.urn == urn
    assert decision.embedded is is_embedded
    assert not decision.rejection


def test_a_main_session_is_no_reason_for_docker() -> None:
    decision = resolved(docker(), MAIN_SESSION, SUBMISSION_DEPENDENCIES)
    assert decision.embedded and not decision.rejection
    assert [a.staged_name for a in decision.environment.artifacts] == [
        MAIN_SESSION,
        SUBMISSION_DEPENDENCIES,
    ]
    assert decision.environment.artifacts[0].sha256 == f"hash-{MAIN_SESSION}"


@pytest.mark.parametrize(
    ("environment", "staged", "reason"),
    [
        (docker("example.com/other:1"), (), "docker image 'example.com/other:1'"),
        (docker(capabilities=[]), (), "an SDK other than the server's own"),
        (docker(), ("requirements.txt",), r"staged dependencies.*requirements.txt"),
        (docker(), (MAIN_SESSION, "extra.whl"), r"\(extra.whl\)"),
        (
            SubprocessSDKEnvironment("python -m boot", capabilities=CAPABILITIES),
            (),
            "environments of kind",
        ),
    ],
    ids=["image", "other SDK", "requirements", "package", "subprocess"],
)
def test_rejections(environment: Environment, staged: tuple[str, ...], reason: str) -> None:
    import re

    decision = resolved(environment, *staged)
    assert not decision.embedded
    assert re.search(reason, decision.rejection), decision.rejection


def test_an_artifact_that_was_never_staged() -> None:
    pipeline = _protos.Pipeline()
    proto = pipeline.components.environments["env"]
    proto.CopyFrom(embedded().to_runner_api(None))
    proto.dependencies.add(role_urn="beam:artifact:role:staging_to:v1")
    with pytest.raises(ValueError, match="never staged"):
        resolve_environments(pipeline, {})
