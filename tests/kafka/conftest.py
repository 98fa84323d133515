"""Real Kafka broker for all tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))

from round_fixtures import broker, temporary
from seeds import add_seed_options, run_for_each_seed

__all__ = ["broker", "temporary"]
pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of rounds of kills and the seed."""
    add_seed_options(parser, rounds="how often the stream is run")
