"""Formatting of elements of any type as short texts on one line."""

from __future__ import annotations

import reprlib
from typing import Any

from apache_beam.transforms.display import DisplayData, HasDisplayData
from beam_runner_model.texts import truncate_text

_MOST_CHARACTERS = 300
_MOST_BYTES = 100


def format_element(element: Any) -> str:
    """Returns the ``repr`` of an element on one line, truncated to 300 characters. The memory use
    doesn't depend on the size of the element.
    """
    try:
        text = " ".join(_ElementRepr().repr(element).splitlines())
    except Exception as error:
        text = f"{type(element).__name__} (repr() of the element failed: {type(error).__name__})"
    return truncate_text(text, _MOST_CHARACTERS)


class _ElementRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = 10
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_bytes(self, element: bytes, level: int) -> str:
        more = "..." if len(element) > _MOST_BYTES else ""
        return f"{element[:_MOST_BYTES]!r}{more}"

    def repr_instance(self, element: Any, level: int) -> str:
        kind: Any = type(element)
        if isinstance(element, HasDisplayData) and kind.__repr__ is object.__repr__:
            return _format_display_data(element)
        return super().repr_instance(element, level)


def _format_display_data(element: HasDisplayData) -> str:
    """Returns the class of an object with its display data, such as the file pattern of a source.

    The ``repr`` of Beam's sources has only their class and an address in memory.
    """
    items = DisplayData.create_from(element).items
    values = [f"{item.key}={item.value!r}" for item in items]
    return f"{type(element).__name__}({', '.join(values)})"
