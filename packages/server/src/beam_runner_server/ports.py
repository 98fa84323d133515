"""What the server asks of whoever starts it: a program with flags, a platform for jobs, a placement of processes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from beam_runner_runtime.driver.ports import Placement


class PlacementService(Placement, Protocol):
    """A placement as the server has it in hand, from before its start. Methods may be called from any thread."""

    @property
    def name(self) -> str:
        """What it is, for people, as in ``Spark 4.3.0``; there once it was started."""

    @property
    def where(self) -> str:
        """On what machines, as in ``local[*,4]``; there once it was started."""

    @property
    def loss(self) -> str:
        """What to say if it is not alive any more and nobody has stopped it."""

    @property
    def host(self) -> str:
        """The name or address under which its processes reach this machine."""

    @property
    def binding(self) -> str:
        """The one at which to listen for them."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all processes run here, so that nothing needs to be reachable from elsewhere."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs; costs about a millisecond."""

    def check(self) -> None:
        """Looks for what `start` needs.

        Raises:
            Unavailable: something is not there; says what to install.
        """

    def start(self) -> None:
        """Starts it. Takes seconds.

        Raises:
            Unavailable: it does not start, or `kill` was called meanwhile. Nothing of it is left.
        """

    def warm_up(self) -> None:
        """Has the first job find everything ready. Takes seconds."""

    def stop(self) -> None:
        """Ends it with all processes, within some 15 seconds; again does nothing."""

    def kill(self) -> None:
        """Ends it at once, also while it starts."""


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
