"""What the server asks of whoever starts it: a program with flags, and a platform for jobs.

Importing this costs nothing: the command line is read before Beam is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from beam_runner_server.placement_service import PlacementService


class Platform(Protocol):
    """What jobs run on, from before anything of it has started."""

    def begin(self) -> None:
        """Starts what takes seconds, so that it goes on while this process imports Beam."""

    def fork_ahead(self) -> None:
        """Forks the process that workers are forked from, so that workers need not import Beam again.

        The caller has one thread, and has not called `placement` yet.
        """

    def placement(self) -> PlacementService:
        """Returns the placement; called once."""

    def kill(self) -> None:
        """Ends what `begin` started, if no server can be made."""


class Program(Protocol):
    """A command that starts servers: its name, its flags about the platform, and the commands beside the server."""

    @property
    def name(self) -> str:
        """The name that messages begin with."""

    @property
    def distribution(self) -> str:
        """The distribution that is installed to have it, whose extras bring more."""

    @property
    def description(self) -> str:
        """What ``--help`` says of it."""

    @property
    def versions(self) -> str:
        """What ``--version`` prints."""

    @property
    def commands(self) -> Mapping[str, Callable[[Sequence[str]], int]]:
        """Functions that run in place of a server, by the first word of the command line; they return exit codes."""

    def add_flags(self, flag: Callable[..., Any]) -> None:
        """Adds flags about the platform by `flag`, which is a parser's ``add_argument``."""

    def platform(self, found: argparse.Namespace) -> Platform:
        """Returns the platform that the flags ask for.

        Raises:
            ValueError: flags contradict each other; the text says which.
        """
