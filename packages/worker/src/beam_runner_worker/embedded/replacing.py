"""Replacement of names in Beam's modules, for behavior that Beam doesn't make configurable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType


@contextlib.contextmanager
def replace_attribute(module: ModuleType, name: str, ours: object) -> Iterator[None]:
    """Within this context, a module of Beam has ``ours`` under this name; the original is restored
    afterwards.

    Raises:
        AttributeError: the module has no such name, as in another version of Beam.
    """
    before = getattr(module, name)
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, before)
