"""Grouping with triggers keeps the contract of bulk groupers once all input is there."""

from __future__ import annotations

import pytest

from beam_runner_engine.testing.bulk_contract import (
    BulkGrouperCase,
    check_bulk_grouper,
    create_bulk_cases,
)
from beam_runner_engine.testing.triggered_bulk import TriggeredBulkGrouper


@pytest.mark.parametrize("case", create_bulk_cases(), ids=lambda case: case.name)
def test_triggered_grouper_with_all_input_keeps_the_contract(case: BulkGrouperCase) -> None:
    check_bulk_grouper(TriggeredBulkGrouper, case)


def test_contract_with_missing_input_raises() -> None:
    case = next(case for case in create_bulk_cases() if case.expected)
    with pytest.raises(AssertionError, match="groups missing"):
        check_bulk_grouper(
            TriggeredBulkGrouper, BulkGrouperCase(case.name, case.strategy, (), case.expected)
        )
