"""Cost of a round of the job's thread: only rounds with waiting bundles look at the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fake_links import FakeLink, bundle, opened

from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


class CountedLanes(dict[int, Any]):
    """Lanes by number. `looks` is the number of iterations over all lanes."""

    looks = 0

    def values(self) -> Any:
        return self._iterate_lanes()

    def _iterate_lanes(self) -> Iterator[Any]:
        self.looks += 1
        yield from super().values()


def test_round_without_waiting_bundles_looks_at_no_lane() -> None:
    sent: list[int] = []
    lanes: Any = LaneDispatcher(
        sent.append, lambda one: one, lambda: None, 2, 8, JobSlots(ClusterSlots(), "job")
    )
    lanes.queue_bundles([bundle(1)])
    opened(lanes, sent[-1], FakeLink())
    lanes.close_idle_lanes()
    lanes._lanes = counted = CountedLanes(lanes._lanes)
    lanes.assign_bundles()
    assert lanes.take_yielding_bundles() == []
    assert lanes.seconds_to_next_yield is None
    lanes.close_idle_lanes()
    assert counted.looks == 0
