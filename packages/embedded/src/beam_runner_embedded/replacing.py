"""Temporary replacement of functions and classes in Beam's modules, for behavior that Beam has no option for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType


@contextlib.contextmanager
def replace_attribute(module: ModuleType, name: str, ours: object) -> Iterator[None]:
    """Replaces an attribute of a module with ``ours`` while this context is active, and restores the
    original afterwards.

    Raises:
        AttributeError: The module has no attribute with this name, for example in another version
            of Beam.
    """
    before = getattr(module, name)
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, before)
