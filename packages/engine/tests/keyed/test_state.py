"""Tests of every kind of state across bundles: values, lazy reads, ranges and merging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
    move_state_to_merged_window,
)
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.testing.stores import MemoryCellStore

CELL = CellId("state", b"key", b"window")


class Bundles:
    """Store with views of one of its cells; the test commits explicitly."""

    def __init__(self) -> None:
        self.store = MemoryCellStore()
        self.cells = UncommittedCells(self.store)

    def state(self, kind: type[State], window: bytes = b"window") -> Any:
        """Returns a view of the cell."""
        return kind(self.cells, CellId("state", b"key", window))

    def commit(self) -> None:
        """Commits, and starts the next bundle."""
        self.store.commit_deltas(self.cells.list_cell_deltas())
        self.cells = UncommittedCells(self.store)
        self.store.reads = 0


@pytest.fixture(params=[False, True], ids=["one bundle", "many bundles"])
def then(request: pytest.FixtureRequest) -> tuple[Bundles, Callable[[], None]]:
    bundles = Bundles()
    return bundles, bundles.commit if request.param else lambda: None


Then = tuple[Bundles, Callable[[], None]]


def test_bag_state_keeps_values_in_order(then: Then) -> None:
    bundles, step = then
    bundles.state(BagState).add(b"1", b"2")
    step()
    bundles.state(BagState).add(b"1")
    step()
    assert list(bundles.state(BagState).read()) == [b"1", b"2", b"1"]
    bundles.state(BagState).clear()
    step()
    assert bundles.state(BagState).is_empty()
    assert list(bundles.state(BagState).read()) == []


def test_value_state_keeps_the_last_value(then: Then) -> None:
    bundles, step = then
    assert bundles.state(ValueState).read() is None
    bundles.state(ValueState).write(b"1")
    step()
    bundles.state(ValueState).write(b"")
    step()
    assert bundles.state(ValueState).read() == b""
    bundles.state(ValueState).clear()
    step()
    assert bundles.state(ValueState).read() is None


def test_combining_state_returns_all_accumulators(then: Then) -> None:
    bundles, step = then
    bundles.state(CombiningState).add(b"1")
    step()
    bundles.state(CombiningState).add(b"2")
    step()
    assert list(bundles.state(CombiningState).read()) == [b"1", b"2"]
    bundles.state(CombiningState).clear()
    bundles.state(CombiningState).add(b"3")
    step()
    bundles.state(CombiningState).add(b"4")
    assert list(bundles.state(CombiningState).read()) == [b"3", b"4"]


def test_multimap_state_keeps_values_by_key(then: Then) -> None:
    bundles, step = then
    bundles.state(MultimapState).add(b"a", b"1", b"2")
    step()
    bundles.state(MultimapState).add(b"a", b"2")
    bundles.state(MultimapState).add(b"b")
    bundles.state(MultimapState).add(b"c", b"4")
    step()
    assert list(bundles.state(MultimapState).get(b"a")) == [b"1", b"2", b"2"]
    assert list(bundles.state(MultimapState).keys()) == [b"a", b"c"]
    bundles.state(MultimapState).remove(b"a")
    step()
    assert list(bundles.state(MultimapState).get(b"a")) == []
    assert [(k, list(v)) for k, v in bundles.state(MultimapState).items()] == [(b"c", [b"4"])]


def test_ordered_list_state_is_sorted_by_sort_key(then: Then) -> None:
    bundles, step = then
    for sort_key, value in ((5, b"5"), (-3, b"-3"), (2, b"a"), (2, b"b"), (9, b"9")):
        bundles.state(OrderedListState).add(sort_key, value)
        step()
    bundles.state(OrderedListState).add(7)
    read = bundles.state(OrderedListState).read
    assert list(read()) == [(-3, b"-3"), (2, b"a"), (2, b"b"), (5, b"5"), (9, b"9")]
    assert list(read(2, 5)) == [(2, b"a"), (2, b"b")]
    assert list(read(start=5)) == [(5, b"5"), (9, b"9")]
    assert list(read(end=2)) == [(-3, b"-3")]
    bundles.state(OrderedListState).clear_range(-3, 5)
    step()
    bundles.state(OrderedListState).clear_range(start=9)
    assert list(bundles.state(OrderedListState).read()) == [(5, b"5")]


def test_state_reads_are_lazy() -> None:
    bundles = Bundles()
    for number in range(100):
        bundles.state(MultimapState).add(b"%02d" % number, b"v")
        bundles.state(OrderedListState, b"other").add(number, b"v")
    bundles.commit()
    bundles.state(MultimapState).get(b"50")
    assert bundles.store.reads == 1
    next(bundles.state(OrderedListState, b"other").read(20))
    assert bundles.store.reads == 2
    bundles.state(BagState, b"third").add(b"blind")
    bundles.state(OrderedListState, b"other").clear_range(3, 7)
    assert bundles.store.reads == 2


def test_state_of_merged_windows_contains_the_values_of_all_windows() -> None:
    bundles = Bundles()
    bundles.state(MultimapState, b"1").add(b"a", b"1")
    bundles.state(MultimapState, b"2").add(b"a", b"2")
    bundles.state(MultimapState, b"2").add(b"b", b"3")
    bundles.commit()
    move_state_to_merged_window(bundles.cells, "state", b"key", [b"1", b"2", b"into"], b"into")
    merged = bundles.state(MultimapState, b"into").items()
    assert [(k, list(v)) for k, v in merged] == [(b"a", [b"1", b"2"]), (b"b", [b"3"])]
    assert bundles.state(MultimapState, b"1").is_empty()


def test_merging_two_value_states_raises_value_error() -> None:
    bundles = Bundles()
    bundles.state(ValueState, b"1").write(b"1")
    move_state_to_merged_window(bundles.cells, "state", b"key", [b"1"], b"2", single=True)
    assert bundles.state(ValueState, b"2").read() == b"1"
    bundles.state(ValueState, b"3").write(b"3")
    with pytest.raises(ValueError, match="a ValueState can't be merged"):
        move_state_to_merged_window(bundles.cells, "state", b"key", [b"3"], b"2", single=True)
