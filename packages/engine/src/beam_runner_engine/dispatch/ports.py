"""Protocol that a job's driver calls to record events and to execute commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.commands import Bundle, Command
from beam_runner_engine.scheduler.events import Tick

AnyEntry = TypeVar("AnyEntry", contravariant=True)


class Host(Protocol[AnyEntry]):
    """Interface through which a job's driver records events and executes commands. Entries are
    events, or records from which the host (the program that embeds the engine) creates events.

    Methods must not call the driver before they return.
    """

    @property
    def next_wake(self) -> Timestamp | None:
        """Processing time (ms) of the next tick that the scheduler needs, or None."""

    def record_journal_entries(self, entries: Sequence[AnyEntry | Tick]) -> Sequence[Command]:
        """Records entries, passes them to the scheduler and returns the resulting commands."""

    def open_bundles(self, bundles: Sequence[Bundle]) -> None:
        """Runs bundles. The results arrive as entries of later rounds."""

    def split_bundle(self, bundle: int, attempt: int, fraction: float) -> None:
        """Requests a split of a running bundle, see `SplitBundle`."""

    def cancel_bundles(self, bundles: Sequence[tuple[int, int]]) -> None:
        """Cancels open bundles, given by number and attempt."""

    def finalize_bundles(self, bundles: Sequence[int]) -> None:
        """Runs the finalization callbacks of committed bundles."""
