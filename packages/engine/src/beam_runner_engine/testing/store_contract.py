"""Contract tests for stores of cells, as checks for any implementation.

This example tests a store with all checks::

    @pytest.mark.parametrize("check", list_store_checks(), ids=lambda check: check.__name__)
    def test_my_store(check):
        check(MyStore())

The store must have a method `commit_deltas(deltas)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.keyed.ports import CellStore

CELL = CellId("state", b"key", b"window")
OTHER = CellId("state", b"key", b"")


class CommittingCellStore(CellStore, Protocol):
    """Cell store with a method that commits changes, for the contract tests."""

    def commit_deltas(self, deltas: Mapping[CellId, CellDelta]) -> None:
        """Commits the changes of a bundle to the store."""


def list_store_checks() -> tuple[Callable[[CommittingCellStore], None], ...]:
    """Returns the checks. Each check needs an empty store and raises AssertionError on failure."""
    return (
        check_store_is_empty,
        check_values_are_appended,
        check_scan_is_sorted_and_bounded,
        check_empty_subkeys_exist,
        check_steps_apply_in_order,
        check_cells_are_independent,
        check_values_round_trip,
    )


def check_store_is_empty(store: CommittingCellStore) -> None:
    """Checks that an empty store has no values and no subkeys (for example, map keys)."""
    _check_equal(store.read_values(CELL, b""), None)
    _check_equal(list(store.scan_subkeys(CELL, b"", None)), [])


def check_values_are_appended(store: CommittingCellStore) -> None:
    """Checks that values keep the order of adding, across commits."""
    store.commit_deltas({CELL: CellDelta(added={b"": (b"1", b"2")})})
    store.commit_deltas({CELL: CellDelta(added={b"": (b"2", b"0")})})
    _check_equal(_to_list(store.read_values(CELL, b"")), [b"1", b"2", b"2", b"0"])


def check_scan_is_sorted_and_bounded(store: CommittingCellStore) -> None:
    """Checks that a scan ascends, includes its start and excludes its end."""
    subkeys = [b"b", b"", b"a", b"ab", b"\xff", b"c"]
    store.commit_deltas({CELL: CellDelta(added={subkey: (subkey,) for subkey in subkeys})})
    _check_equal([s for s, _ in store.scan_subkeys(CELL, b"", None)], sorted(subkeys))
    _check_equal([s for s, _ in store.scan_subkeys(CELL, b"a", b"c")], [b"a", b"ab", b"b"])
    _check_equal(
        [s for s, _ in store.scan_subkeys(CELL, b"aa", None)], [b"ab", b"b", b"c", b"\xff"]
    )
    _check_equal(
        [_to_list(values) for _, values in store.scan_subkeys(CELL, b"b", b"b\x00")], [[b"b"]]
    )


def check_empty_subkeys_exist(store: CommittingCellStore) -> None:
    """Checks that a subkey (for example, a map key) without values differs from an absent
    subkey.
    """
    store.commit_deltas({CELL: CellDelta(added={b"x": ()})})
    _check_equal(_to_list(store.read_values(CELL, b"x")), [])
    _check_equal([s for s, _ in store.scan_subkeys(CELL, b"", None)], [b"x"])


def check_steps_apply_in_order(store: CommittingCellStore) -> None:
    """Checks that a store first clears a cell, then removes values, and then adds values."""
    store.commit_deltas({CELL: CellDelta(added={b"a": (b"1",), b"b": (b"2",), b"c": (b"3",)})})
    delta = CellDelta(
        removed_ranges=((b"b", b"c"),),
        removed=frozenset({b"a"}),
        added={b"a": (b"4",), b"c": (b"5",)},
    )
    store.commit_deltas({CELL: delta})
    contents = [(s, _to_list(values)) for s, values in store.scan_subkeys(CELL, b"", None)]
    _check_equal(contents, [(b"a", [b"4"]), (b"c", [b"3", b"5"])])
    store.commit_deltas({CELL: CellDelta(cleared=True, added={b"d": (b"6",)})})
    _check_equal(
        [(s, _to_list(v)) for s, v in store.scan_subkeys(CELL, b"", None)], [(b"d", [b"6"])]
    )


def check_cells_are_independent(store: CommittingCellStore) -> None:
    """Checks that cells with different names, keys or windows are independent."""
    cells = [CELL, OTHER, CellId("other", b"key", b"window"), CellId("state", b"", b"window")]
    for number, cell in enumerate(cells):
        store.commit_deltas({cell: CellDelta(added={b"": (b"%d" % number,)})})
    for number, cell in enumerate(cells):
        _check_equal(_to_list(store.read_values(cell, b"")), [b"%d" % number])


def check_values_round_trip(store: CommittingCellStore) -> None:
    """Checks that a store returns bytes and integers unchanged."""
    values = (b"", b"\x00\xff", 0, -5, 2**62)
    store.commit_deltas({CELL: CellDelta(added={b"": values})})
    _check_equal(_to_list(store.read_values(CELL, b"")), list(values))


def _to_list(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _check_equal(got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"The store returned {got!r}; expected {expected!r}")
