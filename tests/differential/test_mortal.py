"""Tests that a call that kills its process affects no other call."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from called import begin, work
from mortal import Died, Mortals


def test_isolated_call_that_exits_its_process_is_reported_and_leaves_later_calls_working() -> None:
    with Mortals(begin) as mortals:
        first, second = (mortals.call(work, what) for what in ("one", "two"))
        died = mortals.call(work, "death")
        third = mortals.call(work, "three")
        with pytest.raises(ValueError, match="trouble"):
            mortals.call(work, "trouble")
    assert died == Died("work on death")
    assert isinstance(first, str) and isinstance(second, str) and isinstance(third, str)
    assert first.split()[1:] == second.split()[1:]
    assert third.startswith("three yes ") and third.split()[-1] != first.split()[-1]
