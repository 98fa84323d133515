"""The driver of a job: what happens is put on record, and what the scheduler wants then is done.

It is the same wherever the scheduler is at the time: the host of all places, and one place that drives a
small job by itself, differ in how they do things only.
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


class Driver(Generic[Entry]):
    """Drives a job by its host. Times are processing times (ms); `has_ended` says that the job has."""

    def __init__(self, host: Host[Entry]) -> None:
        self.has_ended = False
        self._host = host
        self._told: Timestamp = 0

    def wait(self, now: Timestamp) -> Duration | None:
        """Returns how long (ms) until a round is needed though nothing happens, None if none is."""
        wake = self._host.next_wake
        return None if wake is None else max(0, wake - now)

    def happened(self, entries: Sequence[Entry], now: Timestamp) -> None:
        """Does a round: the time is told where it matters, to what has happened and when it is needed."""
        due = bool(entries) or self.wait(now) == 0
        told: tuple[Tick, ...] = ()
        if due and now > self._told:
            self._told = now
            told = (Tick(now),)
        if told or entries:
            self.carry_out(self._host.record((*told, *entries)))

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Has done what the scheduler wants, but opens no bundle that is closed again by now."""
        opened: dict[tuple[int, int], Bundle] = {}
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    opened.update(((one.number, one.attempt), one) for one in bundles)
                case SplitBundle(bundle, attempt, fraction):
                    self._host.split(bundle, attempt, fraction)
                case CancelBundles(stopped):
                    for each in stopped:
                        opened.pop(each, None)
                    self._host.stop(stopped)
                case FinalizeBundles(committed):
                    self._host.finalize(committed)
                case FinishJob() | FailJob():
                    self.has_ended = True
                case _:
                    # Data and state are released on record, and `wait` is for whoever has a clock.
                    pass
        if opened:
            self._host.open(tuple(opened.values()))
