"""Journal of a running job that waits and retries while its disk is full or unavailable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import attrs
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.journal.journal import Journal
from beam_runner_storage.unavailable import ExternalSystemUnavailable

_ENTRIES_PER_SNAPSHOT = 2000
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

    away: ExternalSystemUnavailable
    since: float
    next_try: float


class RetryingJournal:
    """Journal that retries writes until the disk of the journal is available again. Only one thread
    at a time can use this object.

    Args:
        limit: maximum duration of an outage in seconds; None is without limit.
        wait: function that waits before the next attempt, and returns whether to make the attempt.
    """

    def __init__(
        self, journal: Journal, limit: float | None, wait: Callable[[Outage], bool]
    ) -> None:
        self._journal = journal
        self._limit = limit
        self._wait = wait
        self._since_snapshot = 0

    def append_entries(self, entries: Sequence[bytes]) -> None:
        """Commits all ``entries``. Retries while the disk is unavailable.

        Raises:
            JournalUnavailable: If the outage exceeds the limit, or if `wait` returns False. The
                journal can contain the entries in this case.
            JournalError: See `Journal`.
        """
        self._retry_on_unavailable_disk(lambda: self._journal.append_entries(entries))

    def replace_by_successor(self, successor: Journal, state: bytes) -> None:
        """Replaces this journal with the journal of the next job, in one transaction. Retries while
        the disk is unavailable.

        Raises the errors of `append_entries`.
        """
        self._retry_on_unavailable_disk(
            lambda: self._journal.replace_by_successor(successor, state)
        )

    def _retry_on_unavailable_disk(self, write: Callable[[], None]) -> None:
        began, failures = 0.0, 0
        while True:
            try:
                write()
                return
            except JournalUnavailable as error:
                now = time.monotonic()
                failures += 1
                began = began or now
                if self._limit is not None and now - began >= self._limit:
                    raise
                if not self._wait(
                    Outage(error.away, began, now + _PAUSES.compute_retry_pause(failures) / 1000)
                ):
                    raise

    def write_due_snapshot(self, added: int, encode: Callable[[], bytes]) -> None:
        """Writes a snapshot if many entries follow the last snapshot. Does nothing if the disk is
        unavailable.

        Args:
            added: number of new entries since the last call.
        """
        self._since_snapshot += added
        if self._since_snapshot >= _ENTRIES_PER_SNAPSHOT:
            self.write_snapshot(encode())

    def write_snapshot(self, state: bytes) -> None:
        """Writes the snapshot ``state``, which replaces all entries. Does nothing if the disk is unavailable."""
        self._since_snapshot = 0
        try:
            self._journal.store_snapshot(state)
        except JournalUnavailable as error:
            _LOGGER.warning("Can't write a snapshot of job %s now: %s", self._journal.job_id, error)
