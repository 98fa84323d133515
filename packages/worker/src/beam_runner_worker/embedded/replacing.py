"""Puts what is ours where Beam looks its own up by name, since there is no other way in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType


@contextlib.contextmanager
def replaced(module: ModuleType, name: str, ours: object) -> Iterator[None]:
    """Within it, a module of Beam's has ``ours`` by this name; afterwards what it had before.

    Raises:
        AttributeError: the module has nothing of this name, as another version of Beam might.
    """
    before = getattr(module, name)
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, before)
