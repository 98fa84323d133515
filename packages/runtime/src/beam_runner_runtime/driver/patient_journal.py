"""The journal of a running job, which waits while the journal's disk is full or away."""

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
    """A neighbour that the whole job waits for.

    Attributes:
        away: the neighbour, and why it is unavailable.
        since: when the outage began; like `next_try`, of ``time.monotonic``.
        next_try: when the runner tries again.
    """

    away: NeighbourUnavailable
    since: float
    next_try: float


class PatientJournal:
    """For one thread at a time.

    Args:
        journal: the job's.
        limit: how many seconds an outage may last; None is without limit.
        wait: is given an outage before each pause, and waits for its end; returns whether to try again.
    """

    def __init__(
        self, journal: Journal, limit: float | None, wait: Callable[[Outage], bool]
    ) -> None:
        self._journal = journal
        self._limit = limit
        self._wait = wait

    def append(self, entries: Sequence[bytes]) -> None:
        """Commits all ``entries``, as soon as the disk takes them.

        Raises:
            JournalUnavailable: the outage lasts too long, or the job is to end; it isn't known whether
                the entries are there.
            JournalError: see `Journal`.
        """
        began, failures = 0.0, 0
        while True:
            try:
                self._journal.append(entries)
                return
            except JournalUnavailable as error:
                now = time.monotonic()
                failures += 1
                began = began or now
                if self._limit is not None and now - began >= self._limit:
                    raise
                if not self._wait(Outage(error.away, began, now + _PAUSES.after(failures) / 1000)):
                    raise

    def snapshot(self, state: bytes) -> None:
        """Keeps ``state`` in place of the entries so far, unless the disk doesn't take it: the entries stay then."""
        try:
            self._journal.snapshot(state)
        except JournalUnavailable as error:
            _LOGGER.warning("job %s: no snapshot for now: %s", self._journal.job_id, error)
