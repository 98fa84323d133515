"""Beam transforms for Spark's tables and streams (`beam_spark_io`).

Pipelines of earlier versions name the modules of this package, because Beam pickles classes by
their modules.
"""

from __future__ import annotations

import importlib
import sys

from beam_spark_io import (
    ReadFromSpark,
    ReadStreamFromSpark,
    WriteToSpark,
    from_dataframe,
    to_dataframe,
)

__all__ = ["ReadFromSpark", "ReadStreamFromSpark", "WriteToSpark", "from_dataframe", "to_dataframe"]

for _name in (
    "declared",
    "frames",
    "primitives",
    "reading",
    "rows",
    "schemas",
    "streaming",
    "writing",
):
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(f"beam_spark_io.{_name}")
