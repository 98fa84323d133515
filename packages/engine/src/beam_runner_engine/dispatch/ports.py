"""What a driver asks of its host: to put on record what has happened, and to do what is wanted then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.commands import Bundle, Command
from beam_runner_engine.scheduler.events import Tick

AnyEntry = TypeVar("AnyEntry", contravariant=True)


class Host(Protocol[AnyEntry]):
    """What differs between the places where a job is driven. Its entries are events, or what events are made of.

    What it is asked to do must not call the driver before it returns.
    """

    @property
    def next_wake(self) -> Timestamp | None:
        """The processing time (ms) of the next tick that its scheduler needs."""

    def record(self, entries: Sequence[AnyEntry | Tick]) -> Sequence[Command]:
        """Puts entries on record, tells them to the scheduler, and returns all that this wants done."""

    def open(self, bundles: Sequence[Bundle]) -> None:
        """Has bundles run; what comes of each is an entry of a later round."""

    def split(self, bundle: int, attempt: int, fraction: float) -> None:
        """Asks a running bundle for a split, as `SplitBundle` says."""

    def stop(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Gives up bundles (number and attempt) that were opened."""

    def finalize(self, bundles: Sequence[int]) -> None:
        """Runs the callbacks of committed bundles."""
