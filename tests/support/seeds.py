"""Tests that are run in rounds, each from a seed of its own."""

from __future__ import annotations

import pytest


def add_seed_options(parser: pytest.Parser, rounds: str) -> None:
    """How many rounds, which are described by ``rounds``, and the seed of the first."""
    parser.addoption("--rounds", type=int, default=1, help=rounds)
    parser.addoption("--seed", type=int, default=1, help="of the first round; the next adds one")


def run_for_each_seed(metafunc: pytest.Metafunc) -> None:
    """Has a test that wants a ``seed`` run once for each round."""
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--rounds")))
