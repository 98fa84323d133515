"""Journal of a running job that waits and retries while its disk is full or unavailable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import attrs
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.journal.journal import Journal
from beam_runner_storage.unavailable import NeighbourUnavailable

_PAUSES = Pauses(1_000, 15_000)
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class Outage:
    """Outage of an external system, such as the disk of the journal, that the job waits for.

    Attributes:
        away: external system, with the cause of the outage.
        since: start of the outage, from ``time.monotonic``.
        next_try: time of the next attempt, from ``time.monotonic``.
    """

    away: NeighbourUnavailable
    since: float
    next_try: float


class PatientJournal:
    """Journal with retries. Only one thread at a time can use it.

    Args:
        journal: journal of the job.
        limit: maximum duration of an outage in seconds; None is without limit.
        wait: function that waits before the next attempt, and returns whether to make the attempt.
    """

    def __init__(
        self, journal: Journal, limit: float | None, wait: Callable[[Outage], bool]
    ) -> None:
        self._journal = journal
        self._limit = limit
        self._wait = wait

    def append_entries(self, entries: Sequence[bytes]) -> None:
        """Commits all ``entries``. Retries while the disk is unavailable.

        Raises:
            JournalUnavailable: If the outage exceeds the limit, or if `wait` returns False. The
                journal may contain the entries or not.
            JournalError: See `Journal`.
        """
        began, failures = 0.0, 0
        while True:
            try:
                self._journal.append_entries(entries)
                return
            except JournalUnavailable as error:
                now = time.monotonic()
                failures += 1
                began = began or now
                if self._limit is not None and now - began >= self._limit:
                    raise
                if not self._wait(
                    Outage(error.away, began, now + _PAUSES.compute_pause(failures) / 1000)
                ):
                    raise

    def write_snapshot(self, state: bytes) -> None:
        """Replaces the entries with the snapshot ``state``. The entries stay if the disk is unavailable."""
        try:
            self._journal.store_snapshot(state)
        except JournalUnavailable as error:
            _LOGGER.warning("Can't write a snapshot of job %s now: %s", self._journal.job_id, error)
