"""Beam transforms for Spark's tables and streams.

Importing this package loads nothing else, because the server imports it before it imports Beam.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_spark_io.frames import from_dataframe, to_dataframe
    from beam_spark_io.reading import ReadFromSpark
    from beam_spark_io.streaming import ReadStreamFromSpark
    from beam_spark_io.writing import WriteToSpark

__all__ = ["ReadFromSpark", "ReadStreamFromSpark", "WriteToSpark", "from_dataframe", "to_dataframe"]

_HOMES = {
    "ReadFromSpark": "reading",
    "ReadStreamFromSpark": "streaming",
    "WriteToSpark": "writing",
    "from_dataframe": "frames",
    "to_dataframe": "frames",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
