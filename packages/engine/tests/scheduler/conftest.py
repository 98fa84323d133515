"""Measurements run only when asked for: `-m cost`."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cost: a measurement, run with -m cost")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "cost" in config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("cost"):
            item.add_marker(pytest.mark.skip(reason="a measurement: run with -m cost"))
