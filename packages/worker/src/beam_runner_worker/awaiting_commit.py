"""What is kept of bundles until they are committed: for an hour, and of a thousand bundles at most."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT_SECONDS = 3600.0
"""Beam promises no more than to try, and its Python SDK lets nobody say for how long."""
MOST_KEPT = 1000
"""Beyond this the oldest are forgotten."""


@attrs.define(eq=False)
class AwaitingCommit(Generic[K, V]):
    """What bundles left for after their commit, by bundle; safe from any thread.

    Args:
        forgotten: told of what was kept in vain.
        clock: monotonic seconds.
    """

    _forgotten: Callable[[K, V], None] | None = None
    _clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _kept: dict[K, tuple[float, V]] = attrs.field(init=False, factory=dict)

    def keep(self, bundle: K, left: V) -> None:
        """Keeps what a bundle left; of two attempts at it the later one counts."""
        with self._lock:
            self._kept.pop(bundle, None)
            self._kept[bundle] = (self._clock() + KEPT_SECONDS, left)
            self._forget_old()

    def take(self, bundle: K) -> V | None:
        """What a bundle left, which is not kept any longer; None if it left nothing, or long ago."""
        with self._lock:
            self._forget_old()
            _, left = self._kept.pop(bundle, (0.0, None))
        return left

    def forget(self, lost: Callable[[V], bool]) -> None:
        """Keeps nothing any longer that is lost, and tells nobody."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if not lost(kept[1])}

    def _forget_old(self) -> None:
        now = self._clock()
        # In the order in which they expire, since all are kept for equally long.
        for bundle, (expires, left) in list(self._kept.items()):
            if expires > now and len(self._kept) <= MOST_KEPT:
                return
            del self._kept[bundle]
            if self._forgotten is not None:
                self._forgotten(bundle, left)
