"""Interfaces of the component that starts the server: a program with flags, and a platform for jobs.

Importing this module is fast, because the server reads the command line before it imports Beam.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from beam_runner_server.placement_service import PlacementService


class Platform(Protocol):
    """The platform on which jobs run, before any part of it has started."""

    def begin(self) -> None:
        """Starts the parts that take seconds, so that they start while this process imports Beam."""

    def fork_worker_template(self) -> None:
        """Forks the process from which workers are forked, so that workers don't import Beam again.

        The process has only one thread then, and `placement` has not been called.
        """

    def placement(self) -> PlacementService:
        """Returns the placement of worker processes on this platform; called once."""

    def kill(self) -> None:
        """Ends what `begin` started, if the server can't be created."""


class Program(Protocol):
    """A command that starts servers: its name, its platform flags, and its other commands."""

    @property
    def name(self) -> str:
        """The name at the start of messages."""

    @property
    def distribution(self) -> str:
        """The distribution that contains the command, whose extras install more."""

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

    def platform(self, found: argparse.Namespace) -> Platform:
        """Returns the platform that the flags select.

        Raises:
            ValueError: flags contradict each other; the text says which.
        """
