"""Which job gives up a place to another, where jobs share the places of a host: one with many to one that has none, or
two fewer.

Places are kept for bundle after bundle, so where all are taken nobody else would ever have one.
"""

from __future__ import annotations


class SharedPlaces:
    """Is told of the places of all jobs, and says who is to give one up; times are seconds of any clock that never
    goes back.

    There is nothing to give up before somebody has waited for `patience` seconds. A job's places have numbers.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._waiting: dict[tuple[str, int], float] = {}
        self._held: dict[str, set[int]] = {}
        self._gave: dict[str, float] = {}

    @property
    def taken(self) -> int:
        """How many places jobs have or wait for."""
        return len(self._waiting) + sum(map(len, self._held.values()))

    def asked(self, job: str, place: int, now: float) -> None:
        """A job waits for a place."""
        self._waiting[job, place] = now

    def got(self, job: str, place: int) -> None:
        """It has the place."""
        self._waiting.pop((job, place), None)
        self._held.setdefault(job, set()).add(place)

    def gone(self, job: str, place: int) -> None:
        """It has the place no more, or will never have it; may be told more than once."""
        self._waiting.pop((job, place), None)
        self._held.get(job, set()).discard(place)

    def gave(self, job: str, now: float) -> None:
        """It gives up one of its places to others, which is not gone yet."""
        self._gave[job] = now

    def forget(self, job: str) -> None:
        """The job has ended."""
        self._held.pop(job, None)
        self._gave.pop(job, None)
        for waiting in [one for one in self._waiting if one[0] == job]:
            del self._waiting[waiting]

    def is_owed_by(self, job: str, now: float) -> bool:
        """Says whether the job is to give up one of its places to another."""
        mine, limit = self._number(job), now - self._patience
        return any(
            other != job and since < limit and self._has_too_few(other, mine)
            for (other, _), since in self._waiting.items()
        )

    def may_ask(self, job: str) -> bool:
        """Says whether the job may ask for a place: one that gave up a place lets those have it that waited then.

        The host would not know who was first: where two jobs have none, it may give the place to either.
        """
        mine, gave = self._number(job), self._gave.get(job, float("-inf"))
        return not any(
            other != job and since <= gave and self._has_fewer(other, mine)
            for (other, _), since in self._waiting.items()
        )

    def _has_fewer(self, job: str, others: int) -> bool:
        held = self._number(job)
        return held == 0 or held < others

    def _has_too_few(self, job: str, others: int) -> bool:
        held = self._number(job)
        return others > held + 1 or (others > 0 and held == 0)

    def _number(self, job: str) -> int:
        return len(self._held.get(job, ()))
