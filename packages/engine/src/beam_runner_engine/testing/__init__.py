"""For those who implement the engine's ports: contract tests, and a store in memory."""

from __future__ import annotations

from beam_runner_engine.testing.bulk_contract import BulkCase, bulk_cases, check_bulk_grouper
from beam_runner_engine.testing.store_contract import CommittingStore, store_checks
from beam_runner_engine.testing.stores import MemoryStore
from beam_runner_engine.testing.triggered_bulk import TriggeredBulk

__all__ = [
    "BulkCase",
    "CommittingStore",
    "MemoryStore",
    "TriggeredBulk",
    "bulk_cases",
    "check_bulk_grouper",
    "store_checks",
]
