"""What the server asks of a placement beyond what the driver does: to be found out about, started and ended."""

from __future__ import annotations

from typing import Protocol

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
