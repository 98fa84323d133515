"""Preparation of a Python SDK harness before its start: the job's artifacts, and its environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import grpc
from beam_runner_model.staged_packages import OTHER_REQUIREMENTS
from beam_runner_urns import artifacts as urns

from beam_runner_worker._protos import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
    json_format,
    text_format,
)
from beam_runner_worker.fnapi.process import CANNOT_PREPARE
from beam_runner_worker.fnapi.virtual_environments import (
    InstallationError,
    find_cache_folder,
    get_python_with_packages,
)
from beam_runner_worker.packages import StagedPackages

STAGED = "staged"
"""Name of the folder for artifacts, inside the folder of the harness."""
_CONNECT_SECONDS = 60.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@attrs.frozen
class HarnessEndpoints:
    """Service addresses with which a harness is started. The provision service may replace all of them
    except ``provision``.
    """

    provision: str
    artifact: str
    logging: str
    control: str


def prepare_harness(worker_id: str, endpoints: HarnessEndpoints, directory: Path) -> None:
    """Requests the provision info, fetches the artifacts, and sets the environment variables that the
    SDK harness reads.

    Raises:
        ValueError: an artifact has no file name.
        grpc.RpcError: A service isn't available, or rejects a request.
    """
    metadata = (("worker_id", worker_id),)
    with grpc.insecure_channel(endpoints.provision, options=_UNLIMITED) as channel:
        provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = provision.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            timeout=_CONNECT_SECONDS,
            metadata=metadata,
            wait_for_ready=True,
        ).info
    artifacts = info.artifact_endpoint.url or endpoints.artifact
    if info.dependencies:
        _fetch_artifacts(artifacts, info.dependencies, directory / STAGED, metadata)
    os.environ.update(_create_environment_variables(endpoints, info, directory))


def install_staged_packages(directory: Path) -> Path | None:
    """Installs the staged packages in a virtual environment, and returns its interpreter. The
    installation may take minutes.

    Returns None if no packages are staged. If the packages can't be installed, the process exits
    with code 78.
    """
    try:
        packages = StagedPackages.from_folder(directory / STAGED)
        if not packages:
            return None
        return get_python_with_packages(
            packages, find_cache_folder(), lambda line: print(line, flush=True)
        )
    except (InstallationError, FileNotFoundError) as error:
        print(f"Can't install the packages of the job: {error}", file=sys.stderr, flush=True)
        sys.exit(CANNOT_PREPARE)


def _fetch_artifacts(
    endpoint: str,
    dependencies: Sequence[beam_runner_api_pb2.ArtifactInformation],
    directory: Path,
    metadata: tuple[tuple[str, str], ...],
) -> None:
    """Fetches the artifacts of the job, and writes them into a directory under their staged names."""
    directory.mkdir(parents=True, exist_ok=True)
    with grpc.insecure_channel(endpoint, options=_UNLIMITED) as channel:
        service = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        resolved = service.ResolveArtifacts(
            beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=dependencies),
            metadata=metadata,
        ).replacements
        for number, artifact in enumerate(resolved):
            name = _get_staged_name(artifact, number)
            request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
            with open(directory / name, "wb") as file:
                for piece in service.GetArtifact(request, metadata=metadata):
                    file.write(piece.data)


def _get_staged_name(artifact: beam_runner_api_pb2.ArtifactInformation, number: int) -> str:
    """Returns the staged file name of an artifact; for a requirements file without a name, a numbered
    name.

    Raises:
        ValueError: The artifact has no file name, or its name contains a path.
    """
    if artifact.role_urn == urns.ROLE_PIP_REQUIREMENTS_FILE:
        return f"{OTHER_REQUIREMENTS}{number}.txt"
    if artifact.role_urn != urns.ROLE_STAGING_TO:
        raise ValueError(f"an artifact has the unknown role {artifact.role_urn!r}")
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    name: str = role.staged_name
    if not name or os.path.basename(name) != name or name in (".", ".."):
        raise ValueError(f"{name!r} isn't a valid name for a staged file")
    return name


def _create_environment_variables(
    endpoints: HarnessEndpoints, info: beam_provision_api_pb2.ProvisionInfo, directory: Path
) -> dict[str, str]:
    """Writes the pipeline options to a file, and returns the environment variables that the SDK harness reads."""
    options = directory / "pipeline_options.json"
    directory.mkdir(parents=True, exist_ok=True)
    options.write_text(json_format.MessageToJson(info.pipeline_options), encoding="utf-8")
    environment = {
        "PIPELINE_OPTIONS_FILE": str(options),
        "SEMI_PERSISTENT_DIRECTORY": str(directory),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "LOGGING_API_SERVICE_DESCRIPTOR": _format_service_descriptor(
            info.logging_endpoint.url or endpoints.logging
        ),
        "CONTROL_API_SERVICE_DESCRIPTOR": _format_service_descriptor(
            info.control_endpoint.url or endpoints.control
        ),
    }
    if info.status_endpoint.url:
        environment["STATUS_API_SERVICE_DESCRIPTOR"] = _format_service_descriptor(
            info.status_endpoint.url
        )
    return environment


def _format_service_descriptor(url: str) -> str:
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))
