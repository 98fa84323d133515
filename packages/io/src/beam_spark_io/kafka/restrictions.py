"""Restrictions of the Kafka source: offsets of one partition, with the known end of the partition.

A restriction is a tuple of the first offset, the stop offset and the known end. The known end gives
progress, and the size of the backlog. A restriction of a stream has the stop `ENDLESS`. It supports
only checkpoints and no other splits, so that only one bundle at a time reads a partition.
"""

from __future__ import annotations

from typing import TypeAlias

from apache_beam import coders
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

ENDLESS = 2**63 - 1
Restriction: TypeAlias = tuple[int, int, int]
PartitionRange: TypeAlias = tuple[str, int, int, int]
"""Element of the reading DoFn: topic, partition, first offset, and stop offset."""


class OffsetTracker(RestrictionTracker):
    """Restriction tracker. A claimed position is a pair of an offset and the known end of the partition."""

    def __init__(self, restriction: Restriction) -> None:
        self._start, self._stop, self._end = restriction
        self._claimed = self._start - 1
        self._has_ended = False

    def current_restriction(self) -> Restriction:
        """Returns the restriction without the offsets that splits have removed."""
        return self._start, self._stop, self._end

    def try_claim(self, position: tuple[int, int]) -> bool:
        """Claims all offsets up to the given offset (inclusive). Returns False if the offset is at
        or after the stop.
        """
        offset, self._end = position
        if offset <= self._claimed:
            raise ValueError(
                f"can't claim offset {offset} after offset {self._claimed}, because claimed "
                "offsets must increase"
            )
        if offset >= self._stop:
            self._has_ended = True
            return False
        self._claimed = offset
        return True

    def check_done(self) -> None:
        """Checks that all offsets were claimed.

        Raises:
            ValueError: Offsets are unclaimed.
        """
        if not self._has_ended and self._claimed + 1 < self._stop:
            raise ValueError(f"offsets from {self._claimed + 1} to {self._stop - 1} are unclaimed")

    def current_progress(self) -> RestrictionProgress:
        """Returns the number of claimed offsets, and the number of known remaining offsets."""
        end = max(self._end, self._start) if self._stop == ENDLESS else self._stop
        first = self._claimed + 1
        return RestrictionProgress(completed=first - self._start, remaining=max(0, end - first))

    def try_split(self, fraction_of_remainder: float) -> tuple[Restriction, Restriction] | None:
        """Splits after the claimed offsets. Returns None if no offsets remain, or if the split
        isn't a checkpoint of a stream.
        """
        first = self._claimed + 1
        if self._has_ended or first >= self._stop:
            return None
        split = first
        if fraction_of_remainder > 0:
            if self._stop == ENDLESS:
                return None
            split += max(1, int((self._stop - first) * fraction_of_remainder))
            if split >= self._stop:
                return None
        residual = split, self._stop, self._end
        self._stop = split
        return self.current_restriction(), residual

    def is_bounded(self) -> bool:
        """Returns whether the restriction has a stop offset. A drain ends restrictions without a stop."""
        return self._stop != ENDLESS


class OffsetRestrictions(RestrictionProvider):
    """Restriction provider of the DoFn that reads Kafka partitions."""

    def initial_restriction(self, element: PartitionRange) -> Restriction:
        """Returns all offsets of the element."""
        _, _, start, stop = element
        return start, stop, start

    def create_tracker(self, restriction: Restriction) -> OffsetTracker:
        """Returns a tracker."""
        return OffsetTracker(restriction)

    def restriction_size(self, element: PartitionRange, restriction: Restriction) -> int:
        """Returns the number of offsets; for a stream, the number of known unread offsets."""
        start, stop, end = restriction
        return max(0, (end if stop == ENDLESS else stop) - start)

    def restriction_coder(self) -> coders.Coder:
        """Returns the coder of restrictions. It must not change, because journals of jobs contain
        encoded restrictions.
        """
        return coders.TupleCoder([coders.VarIntCoder()] * 3)


class TopicRestrictions(OffsetRestrictions):
    """Restriction provider of `DiscoverPartitions`, whose restrictions are ranges of partition numbers."""

    def initial_restriction(self, element: str) -> Restriction:  # type: ignore[override]
        """Returns all numbers."""
        return 0, ENDLESS, 0
