"""Quotas of cores for users: the running jobs of a user share the user's quota."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

_FRESH_SECONDS = 1.0


class UserCoreShares:
    """Registry of the running jobs of users. Thread-safe.

    Args:
        find_quota: function that returns the maximum number of cores of a user; None without a
            quota. The function can read a file, so its result is cached for one second.
    """

    def __init__(self, find_quota: Callable[[str], int | None] = lambda user: None) -> None:
        self._find_quota = find_quota
        self._lock = threading.Lock()
        self._jobs: Counter[str] = Counter()
        self._quotas: dict[str, tuple[int | None, float]] = {}

    def add_job(self, user: str) -> None:
        """Adds a running job of a user."""
        with self._lock:
            self._jobs[user] += 1

    def remove_job(self, user: str) -> None:
        """Removes a job that has ended."""
        with self._lock:
            self._jobs[user] -= 1

    def compute_share(self, user: str, *, starting: int = 0) -> int | None:
        """Returns the number of cores that each job of a user can use, at least 1; None without a
        quota.

        Args:
            user: name of the user.
            starting: number of jobs to count in addition to the running jobs.
        """
        now = time.monotonic()
        with self._lock:
            quota, until = self._quotas.get(user, (None, 0.0))
            if now >= until:
                quota = self._find_quota(user)
                self._quotas[user] = quota, now + _FRESH_SECONDS
            return None if quota is None else max(1, quota // max(1, self._jobs[user] + starting))
