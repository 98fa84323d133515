"""Grouping with triggers keeps the contract of bulk groupers once all input is there."""

from __future__ import annotations

import pytest

from beam_runner_engine.testing.bulk_contract import BulkCase, check_bulk_grouper, create_bulk_cases
from beam_runner_engine.testing.triggered_bulk import TriggeredBulk


@pytest.mark.parametrize("case", create_bulk_cases(), ids=lambda case: case.name)
def test_triggered_grouper_with_all_input_keeps_the_contract(case: BulkCase) -> None:
    check_bulk_grouper(TriggeredBulk, case)


def test_contract_with_missing_input_raises() -> None:
    case = next(case for case in create_bulk_cases() if case.expected)
    with pytest.raises(AssertionError, match="groups missing"):
        check_bulk_grouper(TriggeredBulk, BulkCase(case.name, case.strategy, (), case.expected))
