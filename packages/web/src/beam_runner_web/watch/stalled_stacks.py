"""Automatic collection of thread stacks of bundles without progress, so that pages can show the
line of code that blocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.observation import Execution, ObservedBundle, ThreadStack

from .threads import WorkerThread

STILL_SECONDS = 5.0
OLD_SECONDS = 10.0
_PAUSE_SECONDS = 10.0
_FIRST_SECONDS = 2.0


def is_bundle_stalled(bundle: ObservedBundle) -> bool:
    """Returns whether a bundle has run for long without progress."""
    return bundle.seconds >= OLD_SECONDS and bundle.still > STILL_SECONDS


def is_process_unresponsive(bundle: ObservedBundle) -> bool:
    """Returns whether the process that runs a bundle no longer answers."""
    return bundle.silent > STILL_SECONDS


class StalledStacks:
    """Collector of a job's thread stacks while a bundle makes no progress. Thread-safe.

    A separate thread requests the stacks, because a worker may take seconds to answer.
    """

    def __init__(self, client: JobClient, job_id: str) -> None:
        self._client = client
        self._job_id = job_id
        self._asked = float("-inf")
        self._asking = threading.Lock()
        self._threads: tuple[WorkerThread, ...] = ()

    def find_user_threads(self, execution: Execution | None) -> tuple[WorkerThread, ...]:
        """Returns the threads that were in user code when the stacks were last requested; none if
        no bundle is stuck.
        """
        if execution is None or not any(map(is_bundle_stalled, execution.bundles)):
            self._threads = ()
        elif time.monotonic() - self._asked >= _PAUSE_SECONDS and self._asking.acquire(False):
            is_first, self._asked = self._asked == float("-inf"), time.monotonic()
            asking = threading.Thread(
                target=self._request_stacks, name="beam-web-stacks", daemon=True
            )
            asking.start()
            if is_first:
                # A script that asks once needs the line of code in its only answer.
                asking.join(_FIRST_SECONDS)
        return self._threads

    def _request_stacks(self) -> None:
        try:
            found: Sequence[ThreadStack] = self._client.get_stacks(self._job_id)
            self._threads = tuple(
                one for one in map(WorkerThread.from_stack, found) if one.runs_user_code
            )
        except (JobApiError, ValueError):
            # The server lacks the observation service or is unavailable, which other calls report.
            # Or the client was closed during the call, because no page is open.
            self._threads = ()
        finally:
            self._asking.release()


def find_bundle_thread(
    bundle: ObservedBundle, threads: Sequence[WorkerThread]
) -> WorkerThread | None:
    """Returns the thread whose user code belongs to a bundle; None if several threads are possible."""
    found = [one for one in threads if (one.host, one.pid) == (bundle.host, bundle.pid)]
    found = found or [one for one in threads if one.sdk and one.host == bundle.host]
    places = {(one.user_frames[0].file, one.user_frames[0].line): one for one in found}
    return next(iter(places.values())) if len(places) == 1 else None
