"""Tests that run in rounds, each with a separate seed."""

from __future__ import annotations

import pytest


def add_seed_options(parser: pytest.Parser, rounds: str) -> None:
    """Adds options for the number of rounds, described by ``rounds``, and the first seed."""
    parser.addoption("--rounds", type=int, default=1, help=rounds)
    parser.addoption("--seed", type=int, default=1, help="of the first round; the next adds one")


def run_for_each_seed(metafunc: pytest.Metafunc) -> None:
    """Runs a test with a parameter ``seed`` once for each round."""
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--rounds")))
