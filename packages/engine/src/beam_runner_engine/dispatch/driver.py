"""Driver of a job: records events and executes the scheduler's commands.

The same class drives a job in the server, which has many slots, and in one worker process, which
runs the scheduler loop of a small job. Only the implementation of `Host` (the program that embeds
the engine) differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from beam_runner_model.times import Duration, Timestamp

from beam_runner_engine.dispatch.ports import Host
from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    FailJob,
    FinalizeBundles,
    FinishJob,
    OpenBundles,
    SplitBundle,
)
from beam_runner_engine.scheduler.events import Tick

Entry = TypeVar("Entry")


class JobDriver(Generic[Entry]):
    """Driver of a job, which applies events and executes commands through a `Host`.

    Times are processing times in ms. `has_ended` is True after the job ended.
    """

    def __init__(self, host: Host[Entry]) -> None:
        self.has_ended = False
        self._host = host
        self._told: Timestamp = 0

    def compute_wake_delay(self, now: Timestamp) -> Duration | None:
        """Returns the time (ms) until `record_journal_entries` must be called even without new entries; None
        if no wake-up is pending.
        """
        wake = self._host.next_wake
        return None if wake is None else max(0, wake - now)

    def record_journal_entries(self, entries: Sequence[Entry], now: Timestamp) -> None:
        """Records new entries and executes the resulting commands.

        A `Tick` precedes the entries, if there are entries or a wake-up is due, and if time has
        advanced.
        """
        due = bool(entries) or self.compute_wake_delay(now) == 0
        told: tuple[Tick, ...] = ()
        if due and now > self._told:
            self._told = now
            told = (Tick(now),)
        if told or entries:
            self.execute_commands(self._host.record_journal_entries((*told, *entries)))

    def execute_commands(self, commands: Sequence[Command]) -> None:
        """Executes commands, but skips bundles that a later command cancels."""
        opened: dict[tuple[int, int], Bundle] = {}
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    opened.update(((one.number, one.attempt), one) for one in bundles)
                case SplitBundle(bundle, attempt, fraction):
                    self._host.split_bundle(bundle, attempt, fraction)
                case CancelBundles(stopped):
                    for each in stopped:
                        opened.pop(each, None)
                    self._host.cancel_bundles(stopped)
                case FinalizeBundles(committed):
                    self._host.finalize_bundles(committed)
                case FinishJob() | FailJob():
                    self.has_ended = True
                case _:
                    # Other commands need no action here: `Host.record_journal_entries` releases data and
                    # state, and callers with a clock use `compute_wake_delay`.
                    pass
        if opened:
            self._host.open_bundles(tuple(opened.values()))
