"""Tests that the in-memory store satisfies the contract of stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beam_runner_engine.keyed.cells import CellDelta
from beam_runner_engine.testing.store_contract import CELL, CommittingCellStore, list_store_checks
from beam_runner_engine.testing.stores import MemoryCellStore


@pytest.mark.parametrize("check", list_store_checks(), ids=lambda check: check.__name__)
def test_in_memory_state_store_passes_the_contract_tests(
    check: Callable[[CommittingCellStore], None],
) -> None:
    check(MemoryCellStore())


def test_contract_tests_of_state_stores_reject_a_broken_store() -> None:
    class Forgetful(MemoryCellStore):
        def commit_deltas(self, deltas: object) -> None:
            """Discards all changes."""

    failures = 0
    for check in list_store_checks():
        try:
            check(Forgetful())
        except AssertionError:
            failures += 1
    assert failures == len(list_store_checks()) - 1  # The check of an empty store passes.


def test_in_memory_state_store_removes_empty_cells() -> None:
    store = MemoryCellStore()
    store.commit_deltas({CELL: CellDelta(added={b"x": (b"1",)})})
    store.commit_deltas({CELL: CellDelta(cleared=True)})
    assert store.copy_cells() == {}
