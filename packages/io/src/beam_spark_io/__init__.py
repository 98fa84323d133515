"""Connectors: whatever Spark reads and writes, as transforms of Beam pipelines."""

from __future__ import annotations

from beam_spark_io.frames import from_dataframe, to_dataframe
from beam_spark_io.reading import ReadFromSpark
from beam_spark_io.streaming import ReadStreamFromSpark
from beam_spark_io.writing import WriteToSpark

__all__ = ["ReadFromSpark", "ReadStreamFromSpark", "WriteToSpark", "from_dataframe", "to_dataframe"]
