"""Tests that the summary of a key shard sorts the shard's watermark holds."""

from __future__ import annotations

from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary


def test_shard_summary_sorts_its_holds() -> None:
    summary = ShardSummary({9: 1, 3: 2})
    assert summary.holds == ((3, 2), (9, 1))
    assert summary == ShardSummary(((9, 1), (3, 2)))
    assert summary.min_hold == 3


def test_empty_shard_summary_has_no_hold() -> None:
    assert EMPTY_SUMMARY.min_hold is None
