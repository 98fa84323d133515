"""Tests that the data of a bundle is stored until the commit, within limits of time and of bundles."""

from __future__ import annotations

from beam_runner_worker.awaiting_commit import KEPT_SECONDS, MOST_KEPT, CommitData


def test_bundle_data_awaiting_commit_is_taken_once_from_last_attempt() -> None:
    waiting: CommitData[str, str] = CommitData()
    waiting.store_bundle_data("a", "first attempt")
    waiting.store_bundle_data("a", "second attempt")
    assert waiting.take_bundle_data("a") == "second attempt"
    assert waiting.take_bundle_data("a") is None


def test_expired_bundle_data_awaiting_commit_is_dropped_and_reported() -> None:
    told: list[tuple[str, str]] = []
    now = 0.0
    waiting: CommitData[str, str] = CommitData(lambda *kept: told.append(kept), lambda: now)
    waiting.store_bundle_data("old", "1")
    now = KEPT_SECONDS - 1
    waiting.store_bundle_data("new", "2")
    now = KEPT_SECONDS
    assert (waiting.take_bundle_data("old"), waiting.take_bundle_data("new")) == (None, "2")
    assert told == [("old", "1")]


def test_excess_bundle_data_awaiting_commit_replaces_oldest() -> None:
    told: list[int] = []
    waiting: CommitData[int, str] = CommitData(lambda number, _: told.append(number))
    for number in range(MOST_KEPT + 2):
        waiting.store_bundle_data(number, "left")
    assert told == [0, 1]
    assert (waiting.take_bundle_data(1), waiting.take_bundle_data(2)) == (None, "left")


def test_lost_entries_awaiting_commit_are_dropped_silently() -> None:
    told: list[tuple[int, str]] = []
    waiting: CommitData[int, str] = CommitData(lambda *kept: told.append(kept))
    waiting.store_bundle_data(1, "lost")
    waiting.store_bundle_data(2, "there")
    waiting.drop_lost_data(lambda left: left == "lost")
    assert (waiting.take_bundle_data(1), waiting.take_bundle_data(2), told) == (None, "there", [])
