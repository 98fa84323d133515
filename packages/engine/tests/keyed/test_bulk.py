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
def test_bulk_grouper_with_triggers_passes_the_contract_tests(
    case: BulkGrouperCase,
) -> None:
    check_bulk_grouper(TriggeredBulkGrouper, case)


def test_contract_tests_of_bulk_groupers_detect_missing_input() -> None:
    case = next(case for case in create_bulk_cases() if case.expected)
    with pytest.raises(AssertionError, match="groups missing"):
        check_bulk_grouper(
            TriggeredBulkGrouper, BulkGrouperCase(case.name, case.strategy, (), case.expected)
        )
