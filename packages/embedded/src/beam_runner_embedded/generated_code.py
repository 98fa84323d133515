"""Compilation of generated functions."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_FILE = f"{__file__}:generated"
"""File name of generated code. Tracebacks show no lines of the file, and the code belongs to this package."""


def compile_function(
    name: str, lines: Iterable[str], known: Mapping[str, Any]
) -> Callable[..., Any]:
    """Returns the function with this name in source code.

    Args:
        known: the objects that the source code uses, by name.
    """
    names = dict(known)
    exec(compile("\n".join(lines), _FILE, "exec"), names)
    made: Callable[..., Any] = names[name]
    return made


def is_attribute_name(name: Any) -> bool:
    """Returns True if source code can contain a name as an attribute and as a parameter.

    Python normalizes other letters than ASCII in source code.
    """
    return (
        type(name) is str
        and name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and name != "__debug__"
    )
