"""A clock that a test sets."""

from __future__ import annotations

from types import ModuleType

import pytest


class Clock:
    """Replacement for ``time`` in a module; ``now`` is in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def clock_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replaces the clock of a module until the end of the test."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock
