"""The server's interface to a placement, beyond the driver's: inspect, start and stop."""

from __future__ import annotations

from typing import Protocol

from beam_runner_runtime.driver.ports import Placement


class PlacementService(Placement, Protocol):
    """A placement that the server controls, even before its start. Any thread may call any method."""

    @property
    def name(self) -> str:
        """A name for people, such as ``Spark 4.3.0``. Available after the start."""

    @property
    def where(self) -> str:
        """The machines, such as ``local[*,4]``. Available after the start."""

    @property
    def loss(self) -> str:
        """The error text for the case that the placement ended although it was not stopped."""

    @property
    def host(self) -> str:
        """The name or address under which its processes reach this machine."""

    @property
    def binding(self) -> str:
        """The address on which to listen for its processes."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all processes run on this machine, so that other machines need not reach it."""

    @property
    def is_alive(self) -> bool:
        """Returns whether the placement runs; takes about 1 ms."""

    def check(self) -> None:
        """Checks the requirements of `start`.

        Raises:
            Unavailable: a requirement is missing; the text says what to install.
        """

    def start(self) -> None:
        """Starts the placement. Takes seconds.

        Raises:
            Unavailable: the placement doesn't start, or `kill` was called meanwhile. Nothing of it
                remains.
        """

    def warm_up(self) -> None:
        """Prepares everything for the first job. Takes seconds."""

    def stop(self) -> None:
        """Ends the placement with all processes, within about 15 s. A repeated call does nothing."""

    def kill(self) -> None:
        """Ends the placement at once, even while it starts."""
