"""Tests of the choice between embedded, external and refused environments, with the reasons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from apache_beam.transforms.environments import (
    AnyOfEnvironment,
    DockerEnvironment,
    EmbeddedPythonEnvironment,
    EmbeddedPythonGrpcEnvironment,
    Environment,
    ExternalEnvironment,
    ProcessEnvironment,
    SubprocessSDKEnvironment,
    python_sdk_capabilities,
)
from beam_runner_model.jobs import StagedArtifact
from beam_runner_urns import environments as environment_urns

from beam_runner_planner import _protos, docker_check
from beam_runner_planner.environments import (
    ResolvedEnvironment,
    resolve_environments,
)
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.sdks import get_server_versions

MAIN_SESSION = "pickled_main_session"
SUBMISSION_DEPENDENCIES = "submission_environment_dependencies.txt"

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


def of_version(image: str) -> Environment:
    """Returns a default environment of another SDK."""
    return docker(image, capabilities=[f"beam:version:sdk_base:{image}"])


OLD = of_version("apache/beam_python3.13_sdk:2.55.1")
JAVA = of_version("apache/beam_java17_sdk:2.60.0")


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Replaces the search path by an empty folder without docker."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def docker_is_here(no_docker: Path) -> None:
    (no_docker / "docker").write_text("#!/bin/sh\n")
    (no_docker / "docker").chmod(0o755)


def resolved(environment: Environment, *staged: str, **options: Any) -> ResolvedEnvironment:
    """Returns the decision about an environment with staged files."""
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
        StagedArtifact("", "beam:artifact:role:staging_to:v1", b"", name, f"hash-{name}", 1, "/x")
        for name in staged
    ]
    options_json = json.dumps({f"beam:option:{k}:v1": v for k, v in options.items()})
    return resolve_environments(pipeline, {"env": artifacts}, options_json)["env"]


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
def test_chosen_environment_depends_on_alternatives_and_options(
    environment: Environment, urn: str, is_embedded: bool
) -> None:
    decision = resolved(environment)
    assert decision.environment.urn == urn
    assert decision.embedded is is_embedded
    assert not decision.rejection


@pytest.mark.parametrize(
    ("environment", "options", "in_client"),
    [
        (external(), {"environment_type": "LOOPBACK"}, True),
        (external(), {"environment_type": "EXTERNAL"}, False),
        (external(), {}, False),
        (
            external(),
            {"environment_type": "LOOPBACK", "experiments": ["use_loopback_process_worker"]},
            False,
        ),
        (ExternalEnvironment("localhost:1"), {"environment_type": "LOOPBACK"}, False),
        (process(), {"environment_type": "LOOPBACK"}, False),
    ],
    ids=["loopback", "pool", "nothing said", "processes", "another SDK", "process"],
)
def test_loopback_environment_runs_in_client(
    environment: Environment, options: dict[str, Any], in_client: bool
) -> None:
    assert resolved(environment, **options).in_client is in_client


def test_staged_files_without_install_step_need_no_docker() -> None:
    decision = resolved(docker(), MAIN_SESSION, SUBMISSION_DEPENDENCIES, "data.whl", "words.txt")
    assert decision.embedded and not decision.rejection
    assert [a.staged_name for a in decision.environment.artifacts] == [
        MAIN_SESSION,
        SUBMISSION_DEPENDENCIES,
        "data.whl",
        "words.txt",
    ]
    assert decision.environment.artifacts[0].sha256 == f"hash-{MAIN_SESSION}"


def test_embedded_python_environment_of_same_python_runs_in_separate_process() -> None:
    decision = resolved(EmbeddedPythonGrpcEnvironment(capabilities=CAPABILITIES))
    assert not decision.embedded and not decision.rejection
    assert decision.environment.urn == environment_urns.EMBEDDED_PYTHON


@pytest.mark.parametrize("environment", [docker(), embedded()], ids=["docker", "embedded"])
@pytest.mark.parametrize(
    "staged",
    [
        ("requirements.txt", "some-1.0.tar.gz"),
        ("extra_packages.txt", "extra.whl"),
        ("workflow.tar.gz", MAIN_SESSION),
        ("dataflow_python_sdk.tar",),
        ("apache_beam-2.99.0-cp311-cp311-linux_x86_64.whl",),
    ],
    ids=lambda staged: staged[0],
)
def test_packages_are_installed_for_separate_process_of_same_python(
    environment: Environment, staged: tuple[str, ...]
) -> None:
    decision = resolved(environment, *staged)
    assert not decision.embedded and not decision.rejection
    assert decision.environment.urn == environment_urns.EMBEDDED_PYTHON
    assert [a.staged_name for a in decision.environment.artifacts] == list(staged)


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        (docker("example.com/other:1"), {}),
        (docker(capabilities=[]), {}),
        (docker(), {"environment_type": "DOCKER"}),
        (docker(), {"environment_type": "beam:env:docker:v1"}),
    ],
    ids=["image", "other SDK", "named", "named by its urn"],
)
@pytest.mark.usefixtures("docker_is_here")
def test_docker_environment_is_used_if_docker_exists(
    environment: Environment, options: dict[str, str]
) -> None:
    decision = resolved(environment, "requirements.txt", **options)
    assert not decision.embedded and not decision.rejection
    assert decision.environment.urn == environment_urns.DOCKER
    assert decision.environment.payload


@pytest.mark.usefixtures("docker_is_here")
def test_default_environment_is_embedded_even_if_docker_exists() -> None:
    assert resolved(docker()).embedded
    assert resolved(docker(), environment_type="LOOPBACK").embedded


@pytest.mark.parametrize(
    ("environment", "options", "reason"),
    [
        (
            docker("example.com/other:1"),
            {},
            "Docker image 'example.com/other:1', .*the command 'docker'",
        ),
        (
            docker(capabilities=[]),
            {},
            "an SDK of unknown version, and the server uses",
        ),
        (
            OLD,
            {},
            rf"uses Beam 2.55.1 and Python 3.13, and the server uses {get_server_versions()}; .*LOOPBACK",
        ),
        (
            JAVA,
            {},
            rf"uses the SDK 'apache/beam_java17_sdk:2.60.0', and the server uses .*{get_server_versions()}",
        ),
        (docker(), {"environment_type": "DOCKER"}, "leave out --environment_type=DOCKER"),
        (
            SubprocessSDKEnvironment("python -m boot", capabilities=CAPABILITIES),
            {},
            "environments of kind",
        ),
    ],
    ids=["image", "other SDK", "old", "java", "named", "subprocess"],
)
def test_unusable_environments_are_rejected(
    environment: Environment, options: dict[str, str], reason: str
) -> None:
    decision = resolved(environment, **options)
    assert not decision.embedded
    assert re.search(reason, decision.rejection), decision.rejection


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "exit 1",
            "the command 'docker' can't connect to its daemon: the pipeline uses Beam 2.55.1",
        ),
        ("/bin/sleep 60", "the command 'docker' got no response from its daemon within"),
    ],
)
def test_docker_command_without_daemon_is_rejected(
    script: str, reason: str, no_docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_check, "_SECONDS", 0.5)
    asked = no_docker / "asked"
    (no_docker / "docker").write_text(f"#!/bin/sh\necho asked >> {asked}\n{script}\n")
    (no_docker / "docker").chmod(0o755)
    for _ in range(2):
        assert reason in resolved(OLD).rejection
    assert asked.read_text() == "asked\n"


def test_artifact_that_was_never_staged_is_rejected() -> None:
    pipeline = _protos.Pipeline()
    proto = pipeline.components.environments["env"]
    proto.CopyFrom(embedded().to_runner_api(None))
    proto.dependencies.add(role_urn="beam:artifact:role:staging_to:v1")
    with pytest.raises(InvalidPipeline, match="isn't staged"):
        resolve_environments(pipeline, {})
