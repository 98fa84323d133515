"""Tests that the in-memory store satisfies the contract of stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beam_runner_engine.keyed.cells import CellDelta
from beam_runner_engine.testing.store_contract import CELL, CommittingStore, store_checks
from beam_runner_engine.testing.stores import MemoryStore


@pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
def test_memory_store_keeps_the_contract(check: Callable[[CommittingStore], None]) -> None:
    check(MemoryStore())


def test_the_contract_notices_what_is_wrong() -> None:
    class Forgetful(MemoryStore):
        def commit(self, deltas: object) -> None:
            """Discards all changes."""

    failures = 0
    for check in store_checks():
        try:
            check(Forgetful())
        except AssertionError:
            failures += 1
    assert failures == len(store_checks()) - 1  # The check of an empty store passes.


def test_empty_cells_are_not_kept() -> None:
    store = MemoryStore()
    store.commit({CELL: CellDelta(added={b"x": (b"1",)})})
    store.commit({CELL: CellDelta(cleared=True)})
    assert store.cells() == {}
