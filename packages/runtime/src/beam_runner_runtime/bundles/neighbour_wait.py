"""Waits of a worker process for a neighbour that is away: what a bundle has done is kept meanwhile, not done again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from beam_runner_runtime.bundles.activity import Activity
from beam_runner_runtime.bundles.failed_attempts import unavailability
from beam_runner_runtime.channel.messages import Doing, NeighbourAwaited

Result = TypeVar("Result")

FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


class NeighbourWait:
    """Calls a function again while stores or disks are away. May be used from any thread.

    Args:
        send: tells the server what this process waits for.
        seconds: the longest wait.
        is_wanted: whether to wait any longer; not if the job has ended.
        folder: names the disk of the process's files.
        activity: notes the wait.
    """

    def __init__(
        self,
        send: Callable[[NeighbourAwaited], None],
        seconds: float,
        is_wanted: Callable[[], bool],
        folder: Path,
        activity: Activity | None = None,
    ) -> None:
        self._send = send
        self._seconds = seconds
        self._is_wanted = is_wanted
        self._folder = folder
        self._activity = activity or Activity()

    def __call__(self, work: Callable[[], Result]) -> Result:
        """Returns the result of ``work``, which may be called many times.

        Raises:
            NeighbourUnavailable: a neighbour was away for too long, or the job has ended.
            Exception: ``work`` has failed for another reason.
        """
        with self._activity.of(Doing.NEIGHBOUR):
            return self._until_it_works(work)

    def _until_it_works(self, work: Callable[[], Result]) -> Result:
        began = time.monotonic()
        pause, has_told = FIRST_PAUSE_SECONDS, False
        while True:
            try:
                result = work()
            except Exception as error:
                away = unavailability(error, self._folder)
                if away is None:
                    raise
                self._send(NeighbourAwaited(away.neighbour, away.reason))
                has_told = True
                if time.monotonic() - began > self._seconds or not self._is_wanted():
                    self._send(NeighbourAwaited())
                    raise away from error
            else:
                if has_told:
                    self._send(NeighbourAwaited())
                return result
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def at_once(work: Callable[[], Result]) -> Result:
    """Calls ``work`` once, as a `NeighbourWait` without patience."""
    return work()
