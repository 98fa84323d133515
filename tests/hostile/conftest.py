"""Number of sent requests, and the sample pipelines of the planner's tests."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "packages" / "planner" / "tests")]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of requests and their seed."""
    parser.addoption("--requests", type=int, default=2_000)
    parser.addoption("--seed", type=int, default=random.SystemRandom().randrange(2**32))
