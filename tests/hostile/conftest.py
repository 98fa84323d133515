"""How much is sent."""

from __future__ import annotations

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds how many requests are sent, and the seed that makes them."""
    parser.addoption("--requests", type=int, default=2_000)
    parser.addoption("--seed", type=int, default=random.SystemRandom().randrange(2**32))
