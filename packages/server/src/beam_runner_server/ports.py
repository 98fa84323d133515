"""Interfaces that a package with a job server command implements: the command with its flags, and
the platform that runs jobs.

Importing this module is fast, because the server reads the command line before it imports Beam.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from beam_runner_server.placement_service import PlacementService


class Platform(Protocol):
    """System on which jobs run, such as Spark, with the steps of its early start."""

    def begin_startup(self) -> None:
        """Starts slow parts of the system, such as Spark's Java process, while this process imports Beam."""

    def create_fork_server(self) -> None:
        """Forks the fork server. Workers are forked from it later, so that they don't import Beam
        again.

        The server calls this method while it has only one thread, and before `create_placement`.
        """

    def create_placement(self) -> PlacementService:
        """Creates the placement, which runs worker processes on this system. Called once."""

    def kill(self) -> None:
        """Kills the parts that `begin_startup` started, if the server can't be created."""


class Program(Protocol):
    """Command that starts a server: its name, its flags, and its subcommands."""

    @property
    def name(self) -> str:
        """Name of the command, at the start of its messages."""

    @property
    def distribution(self) -> str:
        """Name of the Python distribution that contains the command, for hints about its extras."""

    @property
    def description(self) -> str:
        """The description for ``--help``."""

    @property
    def versions(self) -> str:
        """Returns the text that ``--version`` prints."""

    @property
    def commands(self) -> Mapping[str, Callable[[Sequence[str]], int]]:
        """Other commands by the first word of the command line, as functions that return exit codes."""

    def add_flags(self, flag: Callable[..., Any]) -> None:
        """Adds the platform flags with `flag`, which is a parser's ``add_argument``."""

    def create_platform(self, found: argparse.Namespace) -> Platform:
        """Returns the platform that the flags select.

        Raises:
            ValueError: flags contradict each other; the text says which.
        """
