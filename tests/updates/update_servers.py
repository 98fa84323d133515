"""Servers on plain processes for updated streams, and calls of their commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobInfo
from beam_runner_server import cli
from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
from beam_runner_server.plain import PlainProcesses, PlainProgram
from harness_commands import environment_flags
from jobs import Pipelines
from updated import NAME


@contextmanager
def start_server(state: Path, **settings: Any) -> Iterator[RunnerServer]:
    """Runs a server on plain processes for the block.

    Args:
        state: state folder.
        settings: further fields of `ServerSettings`.
    """
    platform = PlainProcesses(2)
    served = RunnerServer(
        ServerSettings(job_port=0, state_dir=state, platform=platform, **settings)
    )
    try:
        served.start()
        yield served
    finally:
        served.stop()


def create_pipelines(server: RunnerServer, environment: str = "embedded") -> Pipelines:
    """Returns a source of pipelines for a server."""
    return Pipelines(server.address, environment, environment_flags(Path())[environment])


def roll_back(address: str, *flags: str) -> int:
    """Runs the command for a rollback on the server at an address; returns its exit code."""
    words = ["update", NAME, "--back", "--job-endpoint", address, *flags]
    return cli.main(words, PlainProgram())


def list_jobs(server: RunnerServer) -> list[JobInfo]:
    """Returns the jobs of a server."""
    with JobClient(server.address) as client:
        return list(client.list_jobs())
