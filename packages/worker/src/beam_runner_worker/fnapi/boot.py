"""Boots a Python SDK harness without a container: ``python -m beam_runner_worker.fnapi.boot``.

It is a command for PROCESS environments, and follows the contract that Beam's boot programs follow:
it is given an id and endpoints, asks the provision service for the rest, fetches the artifacts and
becomes the SDK harness. It installs no packages: everything that the pipeline imports has to be
installed in the environment of the interpreter that runs it. Packages among the artifacts are named
in a warning.

    python -m my_pipeline --environment_type=PROCESS \\
        --environment_config='{"command": "/path/to/beam-sdk-boot"}'

where the command is a script such as ``exec python -m beam_runner_worker.fnapi.boot "$@"``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import grpc
from apache_beam.runners.worker import sdk_worker_main
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

_STAGED = "staged"
_PACKAGE_SUFFIXES = (".whl", ".tar.gz", ".tar", ".zip")
_REQUIREMENTS = "requirements.txt"
_CONNECT_SECONDS = 60.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Boots a harness and runs it to its end."""
    flags = _parse(arguments)
    if os.environ.get("WORKER_ID") != flags.id:
        _restart_as(flags.id)
    metadata = (("worker_id", flags.id),)
    with grpc.insecure_channel(flags.provision_endpoint, options=_UNLIMITED) as channel:
        provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = provision.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            timeout=_CONNECT_SECONDS,
            metadata=metadata,
            wait_for_ready=True,
        ).info
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with contextlib.ExitStack() as cleanup:
        directory = Path(
            flags.semi_persist_dir
            or cleanup.enter_context(tempfile.TemporaryDirectory(prefix="beam-sdk-"))
        )
        artifacts = info.artifact_endpoint.url or flags.artifact_endpoint
        if info.dependencies:
            _fetch(artifacts, info.dependencies, directory / _STAGED, metadata)
        os.environ.update(_environment(flags, info, directory))
        sdk_worker_main.main([])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m beam_runner_worker.fnapi.boot",
        description="Boots a Python SDK harness for a PROCESS environment.",
        allow_abbrev=False,
    )
    parser.add_argument("--id", required=True, help="the worker's name")
    parser.add_argument("--provision_endpoint", required=True, help="asked for everything else")
    for service in ("logging", "artifact", "control"):
        parser.add_argument(
            f"--{service}_endpoint", default="", help="used if the provision service names none"
        )
    parser.add_argument(
        "--semi_persist_dir",
        default=os.environ.get("SEMI_PERSISTENT_DIRECTORY", ""),
        help="where artifacts are put; if not given, a temporary directory, removed at the end",
    )
    return parser.parse_args(arguments)


def _fetch(
    endpoint: str,
    dependencies: Sequence[beam_runner_api_pb2.ArtifactInformation],
    directory: Path,
    metadata: tuple[tuple[str, str], ...],
) -> None:
    """Puts the artifacts into ``directory`` under the names they were staged with."""
    directory.mkdir(parents=True, exist_ok=True)
    with grpc.insecure_channel(endpoint, options=_UNLIMITED) as channel:
        service = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        resolved = service.ResolveArtifacts(
            beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=dependencies),
            metadata=metadata,
        ).replacements
        for artifact in resolved:
            name = _staged_name(artifact)
            request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
            with open(directory / name, "wb") as file:
                for piece in service.GetArtifact(request, metadata=metadata):
                    file.write(piece.data)
            if name == _REQUIREMENTS or name.endswith(_PACKAGE_SUFFIXES):
                print(
                    f"the staged package {name} is not installed by this boot program; "
                    "install it in the environment that the command runs in",
                    file=sys.stderr,
                )


def _staged_name(artifact: beam_runner_api_pb2.ArtifactInformation) -> str:
    """The file name an artifact was staged with.

    Raises:
        ValueError: it has none, or one that leads out of its directory.
    """
    if artifact.role_urn != urns.ROLE_STAGING_TO:
        raise ValueError(f"an artifact has the role {artifact.role_urn!r}, which is unknown here")
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    name: str = role.staged_name
    if not name or os.path.basename(name) != name or name in (".", ".."):
        raise ValueError(f"{name!r} is no name for a staged file")
    return name


def _environment(
    flags: argparse.Namespace, info: beam_provision_api_pb2.ProvisionInfo, directory: Path
) -> dict[str, str]:
    """What the SDK harness reads from its environment."""
    options = directory / "pipeline_options.json"
    directory.mkdir(parents=True, exist_ok=True)
    options.write_text(json_format.MessageToJson(info.pipeline_options), encoding="utf-8")
    environment = {
        "PIPELINE_OPTIONS_FILE": str(options),
        "SEMI_PERSISTENT_DIRECTORY": str(directory),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "LOGGING_API_SERVICE_DESCRIPTOR": _descriptor(
            info.logging_endpoint.url or flags.logging_endpoint
        ),
        "CONTROL_API_SERVICE_DESCRIPTOR": _descriptor(
            info.control_endpoint.url or flags.control_endpoint
        ),
    }
    if info.status_endpoint.url:
        environment["STATUS_API_SERVICE_DESCRIPTOR"] = _descriptor(info.status_endpoint.url)
    return environment


def _descriptor(url: str) -> str:
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))


def _restart_as(worker_id: str) -> None:
    """Begins anew with the worker's name in the environment: Beam looks there when imported."""
    os.environ["WORKER_ID"] = worker_id
    os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    main()
