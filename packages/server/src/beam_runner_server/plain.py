"""Plain processes of this machine as the platform of a server, and the command ``beam-runner-jobserver``."""

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
    from beam_runner_runtime.processes.placement import ProcessPlacement
    from beam_runner_runtime.processes.zygote import Zygote

    from beam_runner_server.placement_service import PlacementService
    from beam_runner_server.ports import Platform


@attrs.define
class PlainProcesses:
    """A platform of processes on this machine (`beam_runner_server.ports.Platform`).

    Attributes:
        cores: the number of bundles that can each use a core at the same time.
    """

    cores: int = attrs.field(factory=lambda: os.cpu_count() or 1)
    _zygote: Zygote | None = attrs.field(default=None, init=False, eq=False)

    def begin(self) -> None:
        """Does nothing, because plain worker processes start with the server."""

    def fork_worker_template(self) -> None:
        """Forks the process from which workers are forked, if the operating system allows it."""
        from beam_runner_runtime.processes import parent, reaper
        from beam_runner_runtime.processes.zygote import Zygote

        if reaper.is_reaper_supported():
            self._zygote = Zygote(parent.serve_commands)

    def placement(self) -> ProcessPlacement:
        """Returns the placement of worker processes on this machine."""
        from beam_runner_runtime.processes.placement import ProcessPlacement

        return ProcessPlacement(self.cores, self._zygote)

    def kill(self) -> None:
        """Does nothing, because the forked process ends with this one."""


@attrs.frozen
class DeferredPlatform:
    """A platform that starts nothing before the server (`beam_runner_server.ports.Platform`).

    Attributes:
        placement: makes the placement.
    """

    placement: Callable[[], PlacementService]

    def begin(self) -> None:
        """Does nothing, because this platform starts only when `placement` is called."""

    def fork_worker_template(self) -> None:
        """Does nothing, because this platform starts only when `placement` is called."""

    def kill(self) -> None:
        """Does nothing, because nothing has started."""


@attrs.frozen
class PlainProgram:
    """The command of a server without a cluster (`beam_runner_server.ports.Program`)."""

    name: str = "beam-runner-jobserver"
    distribution: str = "beam-runner-server"
    description: str = (
        "Serves the Beam Job API and runs jobs in plain processes on this machine."
    ) + commands.HELP
    commands: Mapping[str, Callable[[Sequence[str]], int]] = attrs.field(
        factory=lambda: commands.commands_of("beam-runner-jobserver")
    )

    @property
    def versions(self) -> str:
        """Returns the text that ``--version`` prints."""
        beam = distribution_version("apache-beam")
        return f"{self.name} {distribution_version(self.distribution)} (Apache Beam {beam})"

    def add_flags(self, flag: Callable[..., Any]) -> None:
        """Adds the flag ``--cores`` for the number of cores to use."""
        flag(
            "--cores",
            type=flag_values.parse_cores,
            default=os.cpu_count() or 1,
            metavar="CORES",
            help="number of cores that jobs can use (default: all cores of this machine)",
        )

    def platform(self, found: argparse.Namespace) -> Platform:
        """Returns a platform with one process for each core."""
        return PlainProcesses(found.cores)


def distribution_version(distribution: str) -> str:
    """Returns the version of an installed distribution, or a text that says that it isn't installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "from its source tree"
