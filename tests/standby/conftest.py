"""Import path of the tests of standby servers, and the number of rounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "outages"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from seeds import add_seed_options, run_for_each_seed

pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of rounds and the first seed."""
    add_seed_options(parser, rounds="how often each kind of loss is run")
    parser.addoption("--losses", type=int, default=2, help="lost servers in each round")
