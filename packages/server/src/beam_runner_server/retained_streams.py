"""Retention of the state of failed and cancelled streams, until the state expires."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from beam_runner_model.threads import start_helper_thread
from beam_runner_storage.journal.errors import JournalError
from beam_runner_storage.journal.store import JournalStore

_LOOK_SECONDS = 60.0
_LOGGER = logging.getLogger(__name__)


class StreamRetention:
    """Keeper of the retained state of streams, which removes expired state. Thread-safe.

    Args:
        store: store of the journals, and of the times at which the streams ended.
        seconds: retention time in seconds, which also applies to the state that an earlier server
            retained.
        clock: function that returns seconds since 1970.
    """

    def __init__(
        self, store: JournalStore, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def list_expiry_times(self) -> Mapping[str, float]:
        """Returns the jobs with retained state, and their expiry times."""
        now = self._clock()
        try:
            kept = self._store.list_finished_jobs()
        except JournalError:
            return {}  # Return no times if the journal is closed or its disk is unavailable
        return {
            job_id: since + self._seconds
            for job_id, since in kept.items()
            if since + self._seconds > now
        }

    def start(
        self, remove: Callable[[str], None], unfinished: Callable[[], Collection[str]]
    ) -> None:
        """Starts a thread that removes expired state.

        Args:
            remove: function that removes the data of a job.
            unfinished: function that returns the unfinished jobs, whose data must stay.
        """
        self._thread = start_helper_thread(
            lambda: self._remove_periodically(remove, unfinished), "kept-streams"
        )

    def stop(self) -> None:
        """Stops the thread that removes expired state; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def remove_expired(self, remove: Callable[[str], None], unfinished: Collection[str]) -> None:
        """Removes the expired state of streams. Removes journals last, so that a failed removal is repeated."""
        kept = self.list_expiry_times()
        for job_id in self._store.list_finished_jobs():
            if job_id not in kept and job_id not in unfinished:
                remove(job_id)
                self._store.get_journal(job_id).delete_journal()
                _LOGGER.info(
                    "job %s: removed the state, because the duration of"
                    " --keep-failed-streams is over",
                    job_id,
                )

    def _remove_periodically(
        self, remove: Callable[[str], None], unfinished: Callable[[], Collection[str]]
    ) -> None:
        while True:
            try:
                self.remove_expired(remove, unfinished())
            except Exception:
                # Continue after an error, because the next round or the next server repeats the
                # removal.
                _LOGGER.exception(
                    "Can't remove the state of finished streaming jobs; the server will retry"
                )
            if self._stopping.wait(_LOOK_SECONDS):
                return
