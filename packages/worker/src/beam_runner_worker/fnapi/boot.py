"""Boot program for a Python SDK harness without a container: ``python -m
beam_runner_worker.fnapi.boot``.

The program is a command for PROCESS environments, and implements the contract of Beam's boot
programs. The program gets a worker id and endpoints, requests all other settings from the provision
service, and fetches the artifacts. If artifacts are packages, it installs them in a virtual
environment of this interpreter (see :mod:`~beam_runner_worker.fnapi.virtual_environments`). Then
the process runs the SDK harness.

    python -m my_pipeline --environment_type=PROCESS         --environment_config='{"command": "/path/to/beam-sdk-boot"}'

The command is a script such as ``exec python -m beam_runner_worker.fnapi.boot "$@"``.
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

_MODULE = "beam_runner_worker.fnapi.boot"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepares the process, and runs the SDK harness until the harness ends. The exit code is 78 if
    packages can't be installed.
    """
    flags = _parse_arguments(arguments)
    # Set the environment before the import of Beam, which takes seconds and must not happen twice.
    os.environ["WORKER_ID"] = flags.id
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    from beam_runner_worker.fnapi import preparing

    with contextlib.ExitStack() as cleanup:
        temporary = flags.temporary or not flags.semi_persist_dir
        directory = Path(flags.semi_persist_dir or tempfile.mkdtemp(prefix="beam-sdk-"))
        if temporary:
            cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        if not flags.prepared:
            endpoints = preparing.HarnessEndpoints(
                provision=flags.provision_endpoint,
                artifact=flags.artifact_endpoint,
                logging=flags.logging_endpoint,
                control=flags.control_endpoint,
            )
            preparing.prepare_harness(flags.id, endpoints, directory)
            python = preparing.install_staged_packages(directory)
            if python is not None:
                _restart_with_interpreter(python, flags, directory, temporary)
        _run_harness()


def _run_harness() -> None:
    from apache_beam.runners.worker import sdk_worker_main

    from beam_runner_worker.fnapi.sdk_prints import capture_prints
    from beam_runner_worker.fnapi.sdk_texts import patch_sdk_texts

    patch_sdk_texts()
    capture_prints()
    sdk_worker_main.main([])


def _restart_with_interpreter(
    python: Path, flags: argparse.Namespace, directory: Path, temporary: bool
) -> NoReturn:
    command = [str(python), "-m", _MODULE, "--prepared", f"--id={flags.id}"]
    command += [f"--provision_endpoint={flags.provision_endpoint}"]
    command += [f"--semi_persist_dir={directory}"]
    if temporary:
        command.append("--temporary")
    os.execv(python, command)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}",
        description="Starts a Python SDK harness for a PROCESS environment.",
        allow_abbrev=False,
    )
    parser.add_argument("--id", required=True, help="the worker's name")
    parser.add_argument(
        "--provision_endpoint",
        required=True,
        help="address of the provision service, which provides all other settings",
    )
    for service in ("logging", "artifact", "control"):
        parser.add_argument(
            f"--{service}_endpoint",
            default="",
            help="address to use if the provision service returns none",
        )
    parser.add_argument(
        "--semi_persist_dir",
        default=os.environ.get("SEMI_PERSISTENT_DIRECTORY", ""),
        help="folder for artifacts (default: a temporary folder, which is removed at exit)",
    )
    # The program passes this flag to itself when it restarts in a virtual environment.
    for flag in ("prepared", "temporary"):
        parser.add_argument(f"--{flag}", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
