"""Delta and Iceberg tables under test, with the functions that read what the sinks have written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from beam_spark_io.delta.sink import DeltaSink
from beam_spark_io.delta.table import DeltaTarget
from beam_spark_io.exactly_once.protocols import CommitId, CommitMark
from beam_spark_io.iceberg import sink as iceberg
from beam_spark_io.iceberg.sink import IcebergCommitter, IcebergSink
from beam_spark_io.iceberg.table import IcebergTarget, load_table
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from sinks_under_test import SinkUnderTest

_PROBABILITY = 0.4
"""Probability of a crash before, and of a crash after, a commit: a table has few commits."""
_SCHEMA = pa.schema([pa.field(name, pa.int64(), False) for name in ("source", "number")])


def make_delta_sink(folder: Path) -> DeltaSink:
    return DeltaSink(DeltaTarget(str(folder), "append", _SCHEMA, (), (), False, {}))


def read_delta(folder: Path) -> list[tuple[int, int]]:
    if not DeltaTable.is_deltatable(str(folder)):  # before the first commit
        return []
    return list_numbers(DeltaTable(str(folder)).to_pyarrow_table())


def make_catalog(folder: Path) -> dict[str, str]:
    uri = f"sqlite:///{folder}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": folder.as_uri()}


def make_iceberg_sink(folder: Path, kind: type[IcebergSink] = IcebergSink) -> IcebergSink:
    catalog = make_catalog(folder)
    loaded = load_catalog("beam", **catalog)
    loaded.create_namespace("tests")
    loaded.create_table("tests.numbers", _SCHEMA)
    return kind(IcebergTarget("tests.numbers", catalog, "append", _SCHEMA, (), False))


def read_iceberg(folder: Path) -> list[tuple[int, int]]:
    return list_numbers(load_table("tests.numbers", make_catalog(folder)).scan().to_arrow())


def list_numbers(rows: pa.Table) -> list[tuple[int, int]]:
    return [(row["source"], row["number"]) for row in rows.to_pylist()]


class CarelessIcebergSink(IcebergSink):
    """Iceberg sink that ignores the commit mark, as a control: this sink must add files twice."""

    def create_committer(self, run: str, shard: int) -> IcebergCommitter:
        committer = super().create_committer(run, shard)
        committer.__class__ = CarelessIcebergCommitter
        return committer


class CarelessIcebergCommitter(IcebergCommitter):
    """Committer that ignores the commit mark, and writes in each attempt."""

    def _try_commit(self, commit_id: CommitId, elements: Sequence[Any]) -> bool:
        iceberg.read_mark = lambda table, run: CommitMark(commit_id.number - 1)
        return super()._try_commit(commit_id, elements)


TABLES = {
    "delta": SinkUnderTest(make_delta_sink, read_delta, every=1, probability=_PROBABILITY),
    "iceberg": SinkUnderTest(make_iceberg_sink, read_iceberg, every=1, probability=_PROBABILITY),
}

CARELESS_TABLE = SinkUnderTest(
    partial(make_iceberg_sink, kind=CarelessIcebergSink),
    read_iceberg,
    every=1,
    probability=_PROBABILITY,
)
"""Iceberg sink that ignores the mark. For Delta it would write nothing twice: the log names each file once."""
