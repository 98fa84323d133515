"""Tests of the number of started bundles that a process reports to the server."""

from __future__ import annotations

from beam_runner_runtime.bundles.started_bundles import StartedBundleCounts


def test_changed_bundle_counts_are_reported_once() -> None:
    begun = StartedBundleCounts()
    for stage in ("b", "a", "b"):
        begun.count_started_bundle(stage)
    assert begun.take_unreported_counts() == (("a", 1), ("b", 2))
    assert begun.take_unreported_counts() == ()
    begun.count_started_bundle("b")
    assert begun.take_unreported_counts() == (("b", 3),)
    assert begun.list_counts() == (("a", 1), ("b", 3))
