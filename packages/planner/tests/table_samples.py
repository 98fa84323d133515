"""Small pipelines with parts that Spark's own readers and writers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
from beam_spark_io import ReadFromSpark, ReadStreamFromSpark, WriteToSpark


class _Row(NamedTuple):
    id: int


def copy_of_a_table(p: beam.Pipeline) -> None:
    rows = p | ReadFromSpark(sql="SELECT 1 AS id", schema=_Row)
    rows | WriteToSpark("csv", "out", schema=_Row)


def stream(p: beam.Pipeline) -> None:
    p | ReadStreamFromSpark("rate", where="value > 1") | beam.Map(str)


ALL: tuple[Callable[[beam.Pipeline], Any], ...] = (copy_of_a_table, stream)
