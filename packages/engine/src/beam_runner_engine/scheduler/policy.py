"""How work is cut into bundles, first by size and load, then by progress, and whether a section is run as
one: policies to exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
from beam_runner_model.facts import DataFacts
from beam_runner_model.times import Duration


@attrs.frozen
class Load:
    """How busy the host is: `open` bundles of all stages, and how many it can run at once."""

    open: int
    parallelism: int

    @property
    def idle(self) -> int:
        """How many more bundles could run now."""
        return max(0, self.parallelism - self.open)


@attrs.frozen
class RunningBundle:
    """What is known about a running bundle: `fraction` of its work done after `elapsed` ms.

    `stalled` counts the latest progress reports in a row that told of no progress. `splittable`
    bundles can be checkpointed; one that `lingers` has put out something and mostly waits for more.
    `joint` ones have several pieces that could have bundles of their own, and share this one since
    they are little data.
    """

    stage: str
    fraction: float
    elapsed: Duration
    stalled: int
    splittable: bool
    joint: bool = False
    lingers: bool = False


class SplittingPolicy(Protocol):
    """Decides how work is cut. Must be deterministic and picklable; the job fails if it raises."""

    def initial_split(self, work: Sequence[DataFacts], most: int, load: Load) -> Sequence[int]:
        """Cuts the waiting work of an ordinary stage into bundles.

        `work` is what waits, in order, at least one; `most` (at least 1) how many bundles the stage
        may open. Returns the number of pieces of work in each bundle, in order: at least one
        bundle, none empty. What they leave over waits on until a bundle of the stage is done.
        """
        ...

    def dynamic_split(self, bundle: RunningBundle, load: Load) -> float | None:
        """Says whether a bundle that has just reported progress should be split.

        Returns the fraction of the remainder that the bundle keeps, 0.0 for a checkpoint, or None
        to leave it alone.
        """
        ...


@attrs.frozen
class DefaultPolicy:
    """Bundles of about `bundle_bytes`, or smaller where that gives idle slots something to do, unless
    `spreads` is False: then only once a bundle takes long.

    A bundle is checkpointed after `checkpoint_after` ms, or where it lingers, so that long
    restrictions commit now and then. Before that a joint one leaves what it has not begun to idle slots
    at its first report, and another one is split in half when a slot is idle and it is expected to run
    for `split_above` ms more, or has stalled for `stalled_reports` reports. Without `halves_restrictions`
    splittable bundles are only checkpointed.
    """

    bundle_bytes: int = 64 * 1024 * 1024
    split_above: Duration = 2_000
    stalled_reports: int = 2
    checkpoint_after: Duration = 10_000
    spreads: bool = True
    halves_restrictions: bool = True

    def initial_split(self, work: Sequence[DataFacts], most: int, load: Load) -> Sequence[int]:
        """Fills bundles in order up to the aimed size."""
        total = sum(facts.size for facts in work)
        wanted = max(-(-total // self.bundle_bytes), load.idle if self.spreads else 1, 1)
        bundles = min(wanted, most, len(work))
        aim = total / bundles
        counts: list[int] = []
        count, filled = 0, 0.0
        for place, facts in enumerate(work):
            count += 1
            filled += facts.size
            bundles_left = bundles - len(counts)
            if bundles_left == 1:
                continue
            pieces_left = len(work) - place - 1
            if filled >= aim * (len(counts) + 1) or pieces_left < bundles_left:
                counts.append(count)
                count = 0
        counts.append(count)
        return counts

    def dynamic_split(self, bundle: RunningBundle, load: Load) -> float | None:
        """Checkpoints old and lingering bundles; halves long or stalled ones for idle slots."""
        # First: the half of a restriction without end is no nearer to its end, and commits nothing.
        if bundle.splittable and (bundle.lingers or bundle.elapsed >= self.checkpoint_after):
            return 0.0
        if bundle.splittable and not self.halves_restrictions:
            return None
        if load.idle:
            if bundle.joint:
                return 0.0
            if bundle.stalled >= self.stalled_reports:
                return 0.5
            if bundle.fraction > 0.0:
                remaining = bundle.elapsed * (1.0 - bundle.fraction) / bundle.fraction
                if remaining > self.split_above:
                    return 0.5
        return None


@attrs.frozen
class SectionFacts:
    """What is known of a section when its whole input is there.

    `count` elements of `size` bytes are all that it reads, side inputs aside. `work` is how many bytes that
    stands for: restrictions for what they say; None if some of it is of a root, or of restrictions that say
    nothing, from which anything may come. It has `exchanges` inner collections. The host can run
    `parallelism` bundles at the same time.
    """

    stages: tuple[str, ...]
    count: int
    size: int
    work: int | None
    exchanges: int
    parallelism: int


class SectionPolicy(Protocol):
    """Decides whether a section is run as one. Must be deterministic and picklable; the job fails if it
    raises.
    """

    def opens(self, section: SectionFacts) -> bool:
        """Says whether it is opened as one bundle; else its stages have bundles of their own."""
        ...


@attrs.frozen
class DefaultSectionPolicy:
    """Opens sections whose work is at least `least_bytes`; with `growing` also those of which nobody knows it."""

    least_bytes: int = 0
    growing: bool = False

    def opens(self, section: SectionFacts) -> bool:
        """Decides by the work, or by what is read if that is more."""
        if section.work is None and self.growing:
            return True
        return max(section.size, section.work or 0) >= self.least_bytes
