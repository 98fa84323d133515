"""Restrictions of unbounded sources, whose positions are increasing numbers."""

from __future__ import annotations

from typing import Any

from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

_ENDLESS = 2**62


class CheckpointTracker(OffsetRestrictionTracker):
    """Restriction tracker that supports checkpoints but no other splits."""

    def try_split(self, fraction_of_remainder: float) -> Any:
        """Checkpoints: returns all later positions as the residual. Returns None for other splits."""
        return super().try_split(0) if fraction_of_remainder == 0 else None

    def is_bounded(self) -> bool:
        """Returns False, because the source has no end."""
        return False


class EndlessRestrictions(RestrictionProvider):
    """Restriction provider: the restriction of an element, which is a number, contains all
    positions from this number on.
    """

    def initial_restriction(self, element: int) -> OffsetRange:
        """Returns all positions from the element on."""
        return OffsetRange(element, _ENDLESS)

    def create_tracker(self, restriction: OffsetRange) -> CheckpointTracker:
        """Returns a tracker that claims one position after another."""
        return CheckpointTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        """Returns 1, because the number of later positions isn't known."""
        return 1

    def truncate(self, element: int, restriction: OffsetRange) -> None:
        """Returns None, so that a drain ends the reading. Unread data stays in the source."""
