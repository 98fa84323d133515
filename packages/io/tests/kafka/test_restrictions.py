"""Tests of the restrictions of partitions."""

from __future__ import annotations

import pytest

from beam_spark_io.kafka.restrictions import ENDLESS, OffsetRestrictions, OffsetTracker

PROVIDER = OffsetRestrictions()


def test_offset_tracker_checkpoint_returns_unclaimed_offsets() -> None:
    tracker = OffsetTracker((10, ENDLESS, 10))
    assert tracker.try_claim((12, 40))
    assert tracker.try_split(0.0) == ((10, 13, 40), (13, ENDLESS, 40))
    assert not tracker.try_claim((13, 40))
    tracker.check_done()


def test_offset_tracker_checkpoint_before_the_first_claim_returns_all_offsets() -> None:
    tracker = OffsetTracker((10, ENDLESS, 10))
    assert tracker.try_split(0.0) == ((10, 10, 10), (10, ENDLESS, 10))
    tracker.check_done()


def test_bounded_offset_restriction_can_be_halved_and_unbounded_cannot() -> None:
    bounded = OffsetTracker((0, 100, 0))
    assert bounded.try_claim((9, 100))
    assert bounded.try_split(0.5) == ((0, 55, 100), (55, 100, 100))
    assert bounded.try_claim((54, 100))
    assert bounded.try_split(0.5) is None
    endless = OffsetTracker((0, ENDLESS, 0))
    assert endless.try_claim((9, 100))
    assert endless.try_split(0.5) is None


def test_offset_tracker_is_done_after_claim_beyond_its_stop() -> None:
    tracker = OffsetTracker((0, 5, 0))
    assert tracker.try_claim((2, 5))
    with pytest.raises(ValueError, match="from 3 to 4"):
        tracker.check_done()
    assert not tracker.try_claim((7, 9))
    tracker.check_done()
    assert tracker.try_split(0.0) is None


def test_offset_tracker_claims_offsets_in_order() -> None:
    tracker = OffsetTracker((0, 5, 0))
    assert tracker.try_claim((2, 5))
    with pytest.raises(ValueError, match="must increase"):
        tracker.try_claim((2, 5))


def test_offset_restriction_reports_known_backlog_as_progress_and_size() -> None:
    tracker = OffsetTracker((10, ENDLESS, 10))
    assert tracker.current_progress().fraction_completed == 1.0
    assert tracker.try_claim((14, 30))
    progress = tracker.current_progress()
    assert (progress.completed_work, progress.remaining_work) == (5, 15)
    split = tracker.try_split(0.0)
    assert split is not None
    assert PROVIDER.restriction_size(("t", 0, 10, ENDLESS), split[1]) == 15
    assert PROVIDER.restriction_size(("t", 0, 0, 7), (0, 7, 0)) == 7


def test_drain_truncates_endless_restrictions_only() -> None:
    endless, bounded = (3, ENDLESS, 9), (3, 9, 9)
    assert PROVIDER.truncate(("t", 0, 0, ENDLESS), endless) is None
    assert PROVIDER.truncate(("t", 0, 0, 9), bounded) == bounded


def test_encoding_of_offset_restriction_is_stable_across_versions() -> None:
    """Journals of jobs have encoded restrictions."""
    coder = PROVIDER.restriction_coder()
    encoded = coder.encode((3, ENDLESS, 300))
    assert encoded.hex() == "03ffffffffffffffff7fac02"
    assert coder.decode(encoded) == (3, ENDLESS, 300)
