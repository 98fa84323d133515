"""Boots a Python SDK harness without a container: ``python -m beam_runner_worker.fnapi.boot``.

It is a command for PROCESS environments, and follows the contract that Beam's boot programs follow:
it is given an id and endpoints, asks the provision service for the rest, fetches the artifacts,
installs those that are packages in a virtual environment of this interpreter (see
:mod:`~beam_runner_worker.fnapi.virtual_environments`), and becomes the SDK harness.

    python -m my_pipeline --environment_type=PROCESS \\
        --environment_config='{"command": "/path/to/beam-sdk-boot"}'

where the command is a script such as ``exec python -m beam_runner_worker.fnapi.boot "$@"``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

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
from beam_runner_worker.fnapi.process import CANNOT_PREPARE
from beam_runner_worker.fnapi.sdk_texts import make_encodable
from beam_runner_worker.fnapi.virtual_environments import (
    CannotInstall,
    cache_folder,
    python_with,
)
from beam_runner_worker.packages import OTHER_REQUIREMENTS, StagedPackages

_MODULE = "beam_runner_worker.fnapi.boot"
_STAGED = "staged"
_CONNECT_SECONDS = 60.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Boots a harness and runs it to its end; exits with 78 if packages can't be installed."""
    flags = _parse(arguments)
    if os.environ.get("WORKER_ID") != flags.id:
        _restart_as(flags.id)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with contextlib.ExitStack() as cleanup:
        temporary = flags.temporary or not flags.semi_persist_dir
        directory = Path(flags.semi_persist_dir or tempfile.mkdtemp(prefix="beam-sdk-"))
        if temporary:
            cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        if not flags.prepared:
            _prepare(flags, directory)
            python = _with_packages(directory / _STAGED)
            if python is not None:
                _continue_as(python, flags, directory, temporary)
        make_encodable()
        sdk_worker_main.main([])


def _prepare(flags: argparse.Namespace, directory: Path) -> None:
    """Asks what there is to do, fetches the artifacts, and sets what the SDK harness looks for."""
    metadata = (("worker_id", flags.id),)
    with grpc.insecure_channel(flags.provision_endpoint, options=_UNLIMITED) as channel:
        provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = provision.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            timeout=_CONNECT_SECONDS,
            metadata=metadata,
            wait_for_ready=True,
        ).info
    artifacts = info.artifact_endpoint.url or flags.artifact_endpoint
    if info.dependencies:
        _fetch(artifacts, info.dependencies, directory / _STAGED, metadata)
    os.environ.update(_environment(flags, info, directory))


def _with_packages(staged: Path) -> Path | None:
    """The interpreter of an environment with the staged packages, which may take minutes to make.

    None if no packages are staged.
    """
    try:
        packages = StagedPackages.of(staged)
        if not packages:
            return None
        return python_with(packages, cache_folder(), lambda line: print(line, flush=True))
    except (CannotInstall, FileNotFoundError) as error:
        print(f"The packages of the job can't be installed: {error}", file=sys.stderr, flush=True)
        sys.exit(CANNOT_PREPARE)


def _continue_as(
    python: Path, flags: argparse.Namespace, directory: Path, temporary: bool
) -> NoReturn:
    command = [str(python), "-m", _MODULE, "--prepared", f"--id={flags.id}"]
    command += [f"--provision_endpoint={flags.provision_endpoint}"]
    command += [f"--semi_persist_dir={directory}"]
    if temporary:
        command.append("--temporary")
    os.execv(python, command)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}",
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
    # What it tells itself when it goes on in a virtual environment.
    for flag in ("prepared", "temporary"):
        parser.add_argument(f"--{flag}", action="store_true", help=argparse.SUPPRESS)
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
        for number, artifact in enumerate(resolved):
            name = _staged_name(artifact, number)
            request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
            with open(directory / name, "wb") as file:
                for piece in service.GetArtifact(request, metadata=metadata):
                    file.write(piece.data)


def _staged_name(artifact: beam_runner_api_pb2.ArtifactInformation, number: int) -> str:
    """The file name an artifact was staged with; a numbered one for requirements, which have none.

    Raises:
        ValueError: it has none, or one that leads out of its directory.
    """
    if artifact.role_urn == urns.ROLE_PIP_REQUIREMENTS_FILE:
        return f"{OTHER_REQUIREMENTS}{number}.txt"
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
