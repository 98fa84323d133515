"""Retries while an external system (a store or a disk) is unavailable, so that a finished bundle
doesn't lose its results.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from beam_runner_runtime.bundles.activity import ActivityCounter
from beam_runner_runtime.bundles.failed_attempts import find_unavailable_service
from beam_runner_runtime.channel.messages import NeighbourWaitStatus, WorkerActivity

Result = TypeVar("Result")

FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


class OutageRetry:
    """Function that retries other functions while a store or disk is unavailable. Thread-safe.

    Args:
        send: function that reports to the server for which store or disk the process waits.
        seconds: maximum duration of a wait.
        is_wanted: function that returns False after the job has ended, which stops the wait.
        folder: folder of the process's files; reports about their disk name it.
    """

    def __init__(
        self,
        send: Callable[[NeighbourWaitStatus], None],
        seconds: float,
        is_wanted: Callable[[], bool],
        folder: Path,
        activity: ActivityCounter | None = None,
    ) -> None:
        self._send = send
        self._seconds = seconds
        self._is_wanted = is_wanted
        self._folder = folder
        self._activity = activity or ActivityCounter()

    def __call__(self, work: Callable[[], Result]) -> Result:
        """Calls ``work`` until the call succeeds, and returns the result.

        Raises:
            ExternalSystemUnavailable: The store or disk stayed unavailable for too long, or the job has
                ended.
            Exception: ``work`` failed for another reason.
        """
        with self._activity.track_activity(WorkerActivity.NEIGHBOUR):
            return self._retry_until_success(work)

    def _retry_until_success(self, work: Callable[[], Result]) -> Result:
        began = time.monotonic()
        pause, has_told = FIRST_PAUSE_SECONDS, False
        while True:
            try:
                result = work()
            except Exception as error:
                away = find_unavailable_service(error, self._folder)
                if away is None:
                    raise
                self._send(NeighbourWaitStatus(away.neighbour, away.reason))
                has_told = True
                if time.monotonic() - began > self._seconds or not self._is_wanted():
                    self._send(NeighbourWaitStatus())
                    raise away from error
            else:
                if has_told:
                    self._send(NeighbourWaitStatus())
                return result
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def call_without_retry(work: Callable[[], Result]) -> Result:
    """Calls ``work`` once, without retries. Replaces a `OutageRetry` if retries aren't wanted."""
    return work()
