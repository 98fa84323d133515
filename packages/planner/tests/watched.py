"""A guard that detects unpickling in a thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_watched: dict[int, list[str]] = {}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and threading.get_ident() in _watched:
        _watched[threading.get_ident()].append(".".join(map(str, arguments)))


sys.addaudithook(_hook)


@contextmanager
def nothing_unpickled() -> Iterator[None]:
    """Fails if this thread looks up a name from a pickle."""
    found = _watched.setdefault(threading.get_ident(), [])
    try:
        yield
    finally:
        del _watched[threading.get_ident()]
    assert not found, f"unpickled: {found}"
