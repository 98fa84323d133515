"""A place where one bundle at a time can run, and when what runs there uses no core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs

from beam_runner_engine.scheduler.commands import Bundle

AnyPlace = TypeVar("AnyPlace", bound="Place")


@attrs.frozen
class Patience:
    """How long, in seconds, a bundle that comes no further counts as one that uses a core: `blocked`.

    `preparing` is the same for one of which nothing was heard yet: what it runs in may still start,
    as what more of them run in would have to; and `unheard` for one that takes turns with others at one
    interpreter and has not told whether it leaves time to them.
    """

    blocked: float
    preparing: float
    unheard: float


@attrs.define(eq=False, kw_only=True)
class Place:
    """A place; times are seconds of any clock that never goes back.

    `running` is its bundle, if it has one, `loop` says that it drives the whole job for a while, and
    `last` the stage and shard that it was at last. Of what runs there it is known when it `began`, when it came
    further (`changed`) and how far (`fraction`), whether it was `heard` of, and whether it `waits`, which
    leaves time to others in its interpreter, if that is known; `prepares` says that it waits for what it runs in
    to start, as that of more places would have to, and is not over before it is told of again. `giving_way` says that it has been asked to end, `asked`
    when. `served` says that it was given anything to do.
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
        """Says whether nothing can run there yet; never, unless a host says otherwise."""
        return False

    @property
    def is_busy(self) -> bool:
        """Says whether something runs there."""
        return self.loop or self.running is not None

    @property
    def is_idle(self) -> bool:
        """Says whether something could run there that does not."""
        return not (self.is_busy or self.is_starting)

    def runs(self, number: int, attempt: int) -> bool:
        """Says whether it runs this attempt at a bundle."""
        bundle = self.running
        return bundle is not None and (bundle.number, bundle.attempt) == (number, attempt)

    def begin(self, bundle: Bundle | None, now: float) -> None:
        """It runs a bundle from now on, or none."""
        self.running, self.fraction, self.giving_way = bundle, 0.0, False
        self.heard, self.waits, self.prepares = False, None, False
        self.began = self.changed = now
        if bundle is not None:
            self.served = True
            self.last = (bundle.stage, bundle.shard)

    def begin_loop(self, now: float) -> None:
        """It drives the whole job from now on."""
        self.loop, self.served, self.giving_way = True, True, False
        self.changed = now

    def told(self, fraction: float, waits: bool | None, now: float, *, takes_turns: bool) -> bool:
        """Notes what its bundle tells; returns whether that is further than before."""
        is_further = fraction > self.fraction
        if is_further or (takes_turns and not self.heard):
            self.changed = now
        self.heard, self.waits, self.prepares = True, waits, False
        self.fraction = max(fraction, self.fraction)
        return is_further

    def is_blocked(self, now: float, patience: Patience, *, takes_turns: bool) -> bool:
        """Says whether what runs there does not use a core."""
        if self.prepares or (takes_turns and self.waits is False):
            return False  # the latter is busy with one element
        seconds = patience.blocked
        if not self.heard:
            seconds = patience.unheard if takes_turns else patience.preparing
        return self.is_busy and self.changed < now - seconds


def place_for(bundle: Bundle, free: Sequence[AnyPlace]) -> AnyPlace:
    """Returns the free place where a bundle is to run, of at least one: where its shard was at work last, the
    shard's state is still at hand.
    """
    mine = (bundle.stage, bundle.shard)
    return next((place for place in free if place.last == mine), free[-1])
