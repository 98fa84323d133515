"""Contract tests for implementations of the engine's protocols, and an in-memory store."""

from __future__ import annotations

from beam_runner_engine.testing.bulk_contract import BulkCase, check_bulk_grouper, create_bulk_cases
from beam_runner_engine.testing.store_contract import CommittingStore, list_store_checks
from beam_runner_engine.testing.stores import MemoryStore

__all__ = [
    "BulkCase",
    "CommittingStore",
    "MemoryStore",
    "check_bulk_grouper",
    "create_bulk_cases",
    "list_store_checks",
]
