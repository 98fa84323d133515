"""Slot: a place for one running bundle, with the rules for when the bundle counts as blocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from beam_runner_engine.scheduler.commands import Bundle

AnySlot = TypeVar("AnySlot", bound="Slot")


@attrs.frozen
class BlockedTimeLimits:
    """Times in seconds without progress after which a bundle counts as blocked, that is, as not
    using a core.

    Attributes:
        blocked: the time for a bundle that has reported progress.
        preparing: the time for a bundle that has not reported progress. The process of the bundle
            might still be starting, and the processes of additional slots would start as slowly.
        unheard: the time for a bundle in a shared interpreter that has not reported progress.
    """

    blocked: float
    preparing: float
    unheard: float


@attrs.define(eq=False, kw_only=True)
class Slot:
    """Slot for one bundle at a time. Times are seconds on any monotonic clock.

    Attributes:
        running: the running bundle, if any.
        loop: whether the slot runs the scheduler loop of a job.
        served: whether the slot has ever run a bundle or a loop.
        last: the stage and shard of the latest bundle.
        fraction: the finished fraction of the running bundle.
        heard: whether the running bundle has reported progress.
        waits: whether user code waits outside the interpreter; None if unknown.
        prepares: whether the running bundle waits for its SDK harness to start. Cleared by the next
            progress report.
        changed: the time of the latest progress.
        began: the start time of the running bundle.
        asked: the time at which the slot was last asked to stop.
        giving_way: whether the server has requested that the slot becomes free for another job.
    """

    running: Bundle | None = None
    loop: bool = False
    served: bool = False
    last: tuple[str, int | None] | None = None
    fraction: float = 0.0
    heard: bool = False
    waits: bool | None = None
    prepares: bool = False
    changed: float = 0.0
    began: float = 0.0
    asked: float = 0.0
    giving_way: bool = False

    @property
    def is_starting(self) -> bool:
        """Whether the slot's process is still starting. Subclasses override this property."""
        return False

    @property
    def is_busy(self) -> bool:
        """Whether the slot runs a bundle or the scheduler loop of a job."""
        return self.loop or self.running is not None

    @property
    def is_idle(self) -> bool:
        """Whether the slot is ready and runs nothing."""
        return not (self.is_busy or self.is_starting)

    def runs_bundle_attempt(self, number: int, attempt: int) -> bool:
        """Returns whether the slot runs this attempt at a bundle."""
        bundle = self.running
        return bundle is not None and (bundle.number, bundle.attempt) == (number, attempt)

    def begin_bundle(self, bundle: Bundle | None, now: float) -> None:
        """Records that the slot starts a bundle, or becomes idle if `bundle` is None."""
        self.running, self.fraction, self.giving_way = bundle, 0.0, False
        self.heard, self.waits, self.prepares = False, None, False
        self.began = self.changed = now
        if bundle is not None:
            self.served = True
            self.last = (bundle.stage, bundle.shard)

    def begin_loop(self, now: float) -> None:
        """Records that the slot starts the scheduler loop of a job."""
        self.loop, self.served, self.giving_way = True, True, False
        self.changed = now

    def record_progress(
        self, fraction: float, waits: bool | None, now: float, *, takes_turns: bool
    ) -> bool:
        """Records a progress report of the bundle, and returns whether the bundle made progress."""
        is_further = fraction > self.fraction
        if is_further or (takes_turns and not self.heard):
            self.changed = now
        self.heard, self.waits, self.prepares = True, waits, False
        self.fraction = max(fraction, self.fraction)
        return is_further

    def is_blocked(self, now: float, patience: BlockedTimeLimits, *, takes_turns: bool) -> bool:
        """Returns whether the slot is busy but doesn't use a core."""
        if self.prepares or (takes_turns and self.waits is False):
            # In a shared interpreter, a bundle that reports no wait is using the CPU.
            return False
        seconds = patience.blocked
        if not self.heard:
            seconds = patience.unheard if takes_turns else patience.preparing
        return self.is_busy and self.changed < now - seconds


class FreeSlots(Generic[AnySlot]):
    """Free slots, and the choice of a slot for each bundle in constant time.

    Args:
        slots: the free slots, all different.
    """

    def __init__(self, slots: Sequence[AnySlot]) -> None:
        self._free = dict.fromkeys(slots)
        self._by_last: dict[tuple[str, int | None] | None, list[AnySlot]] = {}
        for slot in reversed(slots):
            self._by_last.setdefault(slot.last, []).append(slot)

    def __len__(self) -> int:
        return len(self._free)

    def take_slot(self, bundle: Bundle | None = None) -> AnySlot:
        """Removes and returns the free slot for a bundle. Prefers the slot that last ran the bundle's
        shard and still caches its state, and the last free slot otherwise. A slot must be free.
        """
        same = self._by_last.get((bundle.stage, bundle.shard), []) if bundle else []
        while same and same[-1] not in self._free:
            same.pop()
        slot = same.pop() if same else next(reversed(self._free))
        del self._free[slot]
        return slot
