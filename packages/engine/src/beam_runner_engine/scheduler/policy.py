"""Policies that divide work into bundles, split running bundles, and decide whether a section
(stages that can run together) runs as one bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import Duration


@attrs.frozen
class Load:
    """Load of the job: the number of `open` bundles, and the number of bundles that can run at once (`parallelism`)."""

    open: int
    parallelism: int

    @property
    def idle_slots(self) -> int:
        """Number of additional bundles that could run now."""
        return max(0, self.parallelism - self.open)


@attrs.frozen
class RunningBundle:
    """Running bundle, as a splitting policy sees it.

    Attributes:
        fraction: the finished fraction of the work, from 0 to 1.
        elapsed: the elapsed processing time (ms).
        stalled: the number of consecutive progress reports without progress.
        splittable: whether the bundle can be checkpointed inside an element.
        joint: whether the bundle contains several small data items (pieces) that could run in
            separate bundles.
        lingers: whether the bundle has uncommitted output and mostly waits for more input.
    """

    stage: str
    fraction: float
    elapsed: Duration
    stalled: int
    splittable: bool
    joint: bool = False
    lingers: bool = False


class SplittingPolicy(Protocol):
    """Policy for dividing work into bundles.

    Implementations must be deterministic and picklable. If a method raises an error, the job fails.
    """

    def plan_initial_split(
        self, work: Sequence[DataStatistics], most: int, load: Load
    ) -> Sequence[int]:
        """Divides the pending work of a stage without keys into bundles.

        Args:
            work: the statistics of the pending data items (pieces) in order, at least one.
            most: the maximum number of bundles, at least 1.
            load: the number of open bundles, and the number that can run at once.

        Returns:
            The number of data items in each bundle, in order: at least one bundle, and at least
            one item per bundle. Remaining items wait until a bundle of the stage finishes.
        """
        ...

    def plan_dynamic_split(self, bundle: RunningBundle, load: Load) -> float | None:
        """Decides whether to split a bundle that has just reported progress.

        Returns:
            The fraction of the remaining work that the bundle keeps; 0.0 requests a checkpoint.
                None to continue without a split.
        """
        ...


@attrs.frozen
class DefaultPolicy:
    """Default splitting policy: creates bundles of about `bundle_bytes` and splits long-running
    bundles.

    Attributes:
        bundle_bytes: the target size of a bundle, in bytes.
        split_above: the expected remaining time (ms) above which a bundle is split in half if a
            slot is idle.
        stalled_reports: the number of reports without progress after which a bundle is split in
            half if a slot is idle.
        checkpoint_after: the elapsed time (ms) after which a splittable bundle is checkpointed, so
            that long restrictions commit regularly. A lingering bundle is checkpointed at its next
            report.
        spreads: whether the policy creates smaller bundles to use idle slots. If False, idle slots
            get work only when a long bundle is split.
        halves_restrictions: whether splittable bundles can be split in half. If False, the
            scheduler only checkpoints these bundles.
    """

    bundle_bytes: int = 64 * 1024 * 1024
    split_above: Duration = 2_000
    stalled_reports: int = 2
    checkpoint_after: Duration = 10_000
    spreads: bool = True
    halves_restrictions: bool = True

    def plan_initial_split(
        self, work: Sequence[DataStatistics], most: int, load: Load
    ) -> Sequence[int]:
        """Fills bundles in order up to the target size."""
        total = sum(facts.size for facts in work)
        wanted = max(-(-total // self.bundle_bytes), load.idle_slots if self.spreads else 1, 1)
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

    def plan_dynamic_split(self, bundle: RunningBundle, load: Load) -> float | None:
        """Checkpoints old and lingering bundles, and halves long or stalled bundles for idle slots."""
        # Prefer a checkpoint to a split. After a split, the primary of an unbounded restriction still
        # never ends, so the bundle never commits.
        if bundle.splittable and (bundle.lingers or bundle.elapsed >= self.checkpoint_after):
            return 0.0
        if bundle.splittable and not self.halves_restrictions:
            return None
        if load.idle_slots:
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
class SectionStatistics:
    """Statistics about a section (stages that can run as one bundle) whose complete input is
    available.

    Attributes:
        count: the number of elements in the input, without side inputs.
        size: the size of the input in bytes, without side inputs.
        work: the number of bytes that the input represents, from the sizes of restrictions. None if
            part of the input is a root or an unsized restriction, whose output size is unknown.
        exchanges: the number of collections between stages of the section.
        parallelism: the number of bundles that can run at once.
    """

    stages: tuple[str, ...]
    count: int
    size: int
    work: int | None
    exchanges: int
    parallelism: int


class SectionPolicy(Protocol):
    """Policy that decides whether the stages of a section run together as one bundle.

    Implementations must be deterministic and picklable. If a method raises an error, the job fails.
    """

    def should_open_section(self, section: SectionStatistics) -> bool:
        """Returns whether to run the section as one bundle. Otherwise, its stages get separate
        bundles.
        """
        ...


@attrs.frozen
class DefaultSectionPolicy:
    """Default section policy: runs the stages of a section as one bundle if they have at least
    `least_bytes` of work.

    If `growing` is True, the policy also accepts sections with an unknown amount of work.
    """

    least_bytes: int = 0
    growing: bool = False

    def should_open_section(self, section: SectionStatistics) -> bool:
        """Returns whether the larger of work and input size reaches `least_bytes`."""
        if section.work is None and self.growing:
            return True
        return max(section.size, section.work or 0) >= self.least_bytes
