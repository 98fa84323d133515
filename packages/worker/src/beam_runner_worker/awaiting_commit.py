"""Store of data for the time between the end of a bundle and its commit. The store holds data of at
most 1,000 bundles, for at most one hour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT_SECONDS = 3600.0
"""Maximum time in seconds that data is stored. Beam promises only best effort, and Python users can't set a limit."""
MOST_KEPT = 1000
"""Maximum number of bundles with stored data. A new bundle beyond this number displaces the oldest one."""


@attrs.define(eq=False)
class CommitData(Generic[K, V]):
    """Thread-safe store of data that is needed when a bundle is committed, by bundle.

    Args:
        forgotten: callback that gets the bundle and its data when the data expires or is displaced.
        clock: function that returns monotonic seconds.
    """

    _forgotten: Callable[[K, V], None] | None = None
    _clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _kept: dict[K, tuple[float, V]] = attrs.field(init=False, factory=dict)

    def store_bundle_data(self, bundle: K, left: V) -> None:
        """Stores the data of a bundle. A later attempt of the bundle replaces the data of an earlier attempt."""
        with self._lock:
            self._kept.pop(bundle, None)
            self._kept[bundle] = (self._clock() + KEPT_SECONDS, left)
            self._drop_expired()

    def take_bundle_data(self, bundle: K) -> V | None:
        """Removes and returns a bundle's data; None if the bundle has no data, or if the data was
        dropped.
        """
        with self._lock:
            self._drop_expired()
            _, left = self._kept.pop(bundle, (0.0, None))
        return left

    def drop_lost_data(self, lost: Callable[[V], bool]) -> None:
        """Removes the data for which ``lost`` returns True, without a call of the callback `forgotten`."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if not lost(kept[1])}

    def _drop_expired(self) -> None:
        now = self._clock()
        # The entries are in the order in which they expire, because all entries have the same time
        # limit.
        for bundle, (expires, left) in list(self._kept.items()):
            if expires > now and len(self._kept) <= MOST_KEPT:
                return
            del self._kept[bundle]
            if self._forgotten is not None:
                self._forgotten(bundle, left)
