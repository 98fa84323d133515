"""Command ``beam-runner-jobserver``, which runs jobs in processes of this machine, without a cluster."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from beam_runner_server import flag_values
from beam_runner_server.job_commands import commands

if TYPE_CHECKING:
    from beam_runner_runtime.processes.forked_process import ForkedProcess
    from beam_runner_runtime.processes.placement import ProcessPlacement

    from beam_runner_server.placement_service import PlacementService
    from beam_runner_server.ports import Platform


@attrs.define
class PlainProcesses:
    """Platform that runs jobs in processes of this machine (`beam_runner_server.ports.Platform`).

    Attributes:
        cores: the number of bundles that can each use a core at the same time.
    """

    cores: int = attrs.field(factory=lambda: os.cpu_count() or 1)
    _fork_server: ForkedProcess | None = attrs.field(default=None, init=False, eq=False)

    def begin_startup(self) -> None:
        """Does nothing, because worker processes of this machine start later, together with the server."""

    def create_fork_server(self) -> None:
        """Forks the process from which workers are forked later (the fork server), if the operating
        system supports forks.
        """
        from beam_runner_runtime.processes import parent, reaper
        from beam_runner_runtime.processes.forked_process import ForkedProcess

        if reaper.is_reaper_supported():
            self._fork_server = ForkedProcess(parent.serve_commands)

    def create_placement(self) -> ProcessPlacement:
        from beam_runner_runtime.processes.placement import ProcessPlacement

        return ProcessPlacement(self.cores, self._fork_server)

    def kill(self) -> None:
        """Does nothing, because the fork server exits together with this process."""


@attrs.frozen
class DeferredPlatform:
    """Platform (system that runs worker processes) that starts nothing before the server
    (`beam_runner_server.ports.Platform`).

    Attributes:
        create_placement: function that returns the placement, which starts worker processes.
    """

    create_placement: Callable[[], PlacementService]

    def begin_startup(self) -> None:
        """Does nothing: this platform starts its worker processes later, when `create_placement` is called."""

    def create_fork_server(self) -> None:
        """Does nothing: this platform starts its worker processes later, when `create_placement` is called."""

    def kill(self) -> None:
        """Does nothing, because nothing has started."""


@attrs.frozen
class PlainProgram:
    """Command line of a job server that runs jobs without a cluster."""

    name: str = "beam-runner-jobserver"
    distribution: str = "beam-runner-server"
    description: str = (
        "Serves the Beam Job API and runs jobs in plain processes on this machine."
    ) + commands.HELP
    commands: Mapping[str, Callable[[Sequence[str]], int]] = attrs.field(
        factory=lambda: commands.list_commands("beam-runner-jobserver")
    )

    @property
    def versions(self) -> str:
        """Returns the text that ``--version`` prints."""
        beam = get_distribution_version("apache-beam")
        return f"{self.name} {get_distribution_version(self.distribution)} (Apache Beam {beam})"

    def add_flags(self, flag: Callable[..., Any]) -> None:
        """Adds the flag ``--cores`` for the number of cores to use."""
        flag(
            "--cores",
            type=flag_values.parse_cores,
            default=os.cpu_count() or 1,
            metavar="CORES",
            help="number of cores for jobs (default: all)",
        )

    def create_platform(self, found: argparse.Namespace) -> Platform:
        """Returns a platform that uses one process for each core."""
        return PlainProcesses(found.cores)


def get_distribution_version(distribution: str) -> str:
    """Returns the version of an installed distribution, or a text that says that the distribution
    isn't installed.
    """
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "from its source tree"
