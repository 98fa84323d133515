"""Interface of a placement for the server: the server starts, inspects and stops the placement."""

from __future__ import annotations

from typing import Protocol

from beam_runner_driver.ports import Placement


class PlacementService(Placement, Protocol):
    """Placement (the system that runs worker processes) with methods for its start, its checks and
    its stop. Thread-safe.
    """

    @property
    def name(self) -> str:
        """Display name, such as ``Spark 4.3.0``. Available after the start."""

    @property
    def where(self) -> str:
        """Display text about the used machines, such as ``local[*,4]``. Available after the start."""

    @property
    def loss_message(self) -> str:
        """Error text for the case that the placement (the system that runs worker processes) has
        ended unexpectedly.
        """

    @property
    def host(self) -> str:
        """Host name or address at which worker processes reach this machine."""

    @property
    def binding(self) -> str:
        """Address at which the server must listen for worker processes."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all worker processes run on this machine, so that other machines don't have to reach the server."""

    @property
    def is_alive(self) -> bool:
        """Returns whether the placement (the system that runs worker processes) runs. Takes about 1
        ms.
        """

    def check_requirements(self) -> None:
        """Checks the requirements of `start`.

        Raises:
            Unavailable: a requirement is missing; the text says what to install.
        """

    def start(self) -> None:
        """Starts the placement (the system that runs worker processes). Takes seconds.

        Raises:
            Unavailable: the placement doesn't start, or `kill` was called meanwhile. Nothing of it
                remains.
        """

    def warm_up(self) -> None:
        """Starts worker processes in advance, so that the first job starts faster. Takes seconds."""

    def stop(self) -> None:
        """Ends the placement with all processes, within about 15 s. A repeated call does nothing."""

    def kill(self) -> None:
        """Kills the placement and all worker processes immediately, even while they start."""
