"""Contract tests for implementations of the engine's protocols, and an in-memory store."""

from __future__ import annotations

from beam_runner_engine.testing.bulk_contract import BulkCase, bulk_cases, check_bulk_grouper
from beam_runner_engine.testing.store_contract import CommittingStore, store_checks
from beam_runner_engine.testing.stores import MemoryStore

__all__ = [
    "BulkCase",
    "CommittingStore",
    "MemoryStore",
    "bulk_cases",
    "check_bulk_grouper",
    "store_checks",
]
