"""Whose turn it is to begin: of many jobs that come at once most wait, in their order, for others.

Jobs that all take turns at the cores end no sooner than those that begin one after the other, and each that runs
costs processes of its own. A job counts for its first seconds only: streams and long jobs hold nobody
up, and share the places with whoever comes.
"""

from __future__ import annotations


class JobTurns:
    """Says who may begin; times are seconds of any clock that never goes back.

    There may be `most` jobs that began less than `seconds` ago.
    """

    def __init__(self, most: float, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._waiting: dict[str, None] = {}
        self._began: dict[str, float] = {}

    def take(self, job: str, now: float) -> bool:
        """Says whether a job may begin, which is taken for done; one that may not is to ask again, and keeps its place in
        the line.
        """
        if job not in self._began:
            self._waiting.setdefault(job)
            if job not in self.next(now):
                return False
            del self._waiting[job]
            self._began[job] = now
        return True

    def leave(self, job: str) -> None:
        """The job has ended, whether it had begun or not."""
        self._waiting.pop(job, None)
        self._began.pop(job, None)

    def next(self, now: float) -> list[str]:
        """Returns those that wait and may begin now, in their order."""
        free = self._most - sum(now - began < self._seconds for began in self._began.values())
        return [job for place, job in enumerate(self._waiting) if place < free]
