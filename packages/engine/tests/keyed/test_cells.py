"""Tests that deltas compose, and that uncommitted cells read like a store after the commit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.cells import CellDelta, CellId, apply_delta
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.testing.stores import MemoryCellStore

SUBKEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"c"])
RANGES = st.tuples(SUBKEYS, st.none() | SUBKEYS)
VALUES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
DELTAS = st.builds(
    CellDelta,
    st.booleans(),
    st.lists(RANGES, max_size=2).map(tuple),
    st.frozensets(SUBKEYS),
    st.dictionaries(SUBKEYS, VALUES),
)
CELL = CellId("s", b"k", b"w")
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SUBKEYS, VALUES),
        st.tuples(st.just("replace"), SUBKEYS, VALUES),
        st.tuples(st.just("remove"), SUBKEYS),
        st.tuples(st.just("remove_range"), RANGES),
        st.tuples(st.just("clear")),
        st.tuples(st.just("commit")),
    ),
    max_size=20,
)


@given(st.dictionaries(SUBKEYS, VALUES), DELTAS, DELTAS)
def test_combination_of_two_state_changes_has_the_effect_of_both(
    before: dict[bytes, tuple[int, ...]], first: CellDelta, second: CellDelta
) -> None:
    one_by_one = {subkey: list(values) for subkey, values in before.items()}
    at_once = {subkey: list(values) for subkey, values in before.items()}
    apply_delta(one_by_one, first)
    apply_delta(one_by_one, second)
    apply_delta(at_once, first.combine_with(second))
    assert at_once == one_by_one


def _change(model: dict[bytes, list[int]], operation: tuple[Any, ...]) -> None:
    match operation:
        case ("append", subkey, values):
            model.setdefault(subkey, []).extend(values)
        case ("replace", subkey, values):
            model[subkey] = list(values)
        case ("remove", subkey):
            model.pop(subkey, None)
        case ("remove_range", (start, end)):
            for subkey in list(model):
                if subkey >= start and (end is None or subkey < end):
                    del model[subkey]
        case ("clear",):
            model.clear()


@given(OPERATIONS, RANGES)
def test_uncommitted_state_changes_read_like_committed_state(
    operations: list[tuple[Any, ...]], bounds: tuple[bytes, bytes | None]
) -> None:
    store = MemoryCellStore()
    cells = UncommittedCells(store)
    model: dict[bytes, list[int]] = {}
    for operation in operations:
        match operation:
            case ("append", subkey, values):
                cells.append_values(CELL, values, subkey)
            case ("replace", subkey, values):
                cells.replace_values(CELL, values, subkey)
            case ("remove", subkey):
                cells.remove_subkey(CELL, subkey)
            case ("remove_range", (start, end)):
                cells.remove_range(CELL, start, end)
            case ("clear",):
                cells.clear_cell(CELL)
            case _:
                store.commit_deltas(cells.list_cell_deltas())
                cells = UncommittedCells(store)
        _change(model, operation)
        for subkey in (b"", b"a", b"ab", b"b", b"c"):
            values = cells.read_values(CELL, subkey)
            assert (None if values is None else list(values)) == model.get(subkey)
        start, end = bounds
        expected = [(s, model[s]) for s in sorted(model) if s >= start and (end is None or s < end)]
        assert [(s, list(v)) for s, v in cells.scan_subkeys(CELL, start, end)] == expected


def test_listed_state_changes_contain_only_changed_cells() -> None:
    store = MemoryCellStore()
    store.commit_deltas({CELL: CellDelta(added={b"": (1,)})})
    cells = UncommittedCells(store)
    other = CellId("s", b"k", b"other")
    assert cells.read_values(CELL) == (1,)
    cells.append_values(other, [2])
    assert store.read_values(other, b"") is None
    assert list(cells.list_cell_deltas()) == [other]


def test_state_cell_is_read_from_the_store_once() -> None:
    store = MemoryCellStore()
    cells = UncommittedCells(store)
    for _ in range(3):
        cells.read_values(CELL)
    assert store.reads == 1
