"""Tests that an outage of an Iceberg catalog or storage is a wait of reads, and not a failed attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_spark_io import ReadFromIceberg, patience
from beam_spark_io.iceberg.lineage import LineageReader
from beam_spark_io.iceberg.outages import is_unavailable
from beam_spark_io.iceberg.streaming import find_first_position
from beam_spark_io.tables.outages import TableUnavailable

exceptions = pytest.importorskip(
    "pyiceberg.exceptions", reason="the extra `iceberg` isn't installed"
)
pytest.importorskip("sqlalchemy", reason="the catalog of the tests needs it")


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    """Returns the properties of a catalog with a table of three files."""
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    properties = {"type": "sql", "uri": uri, "warehouse": tmp_path.as_uri()}
    loaded = load_catalog("beam", **properties)
    loaded.create_namespace("shop")
    table = loaded.create_table("shop.sales", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    return properties


def read(catalog: dict[str, str], **more: Any) -> list[int]:
    """Returns the numbers of the table, read without a runner."""
    read = ReadFromIceberg("shop.sales", catalog, batches=True, **more)
    read._read_file.setup()
    tasks = list(read._list_files.process(b""))
    batches = [batch for task in tasks for batch in read._read_file.process(task)]
    return sorted(number for batch in batches for number in batch.column(0).to_pylist())


@pytest.mark.parametrize("step", ["catalog", "file", "position"])
def test_read_waits_for_outages_and_fails_after_its_patience(
    catalog: dict[str, str], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import ArrowScan

    kind, name = (ArrowScan, "to_record_batches") if step == "file" else (SqlCatalog, "load_table")
    call = getattr(kind, name)
    outages: list[Exception] = []
    pauses: list[float] = []

    def fail_sometimes(*arguments: Any) -> Any:
        if outages:
            raise outages.pop()
        return call(*arguments)

    monkeypatch.setattr(kind, name, fail_sometimes)
    monkeypatch.setattr(patience, "_sleep", pauses.append)
    outages += [ConnectionError("away"), exceptions.ServiceUnavailableError("away")]
    if step == "position":
        source = ReadFromIceberg("shop.sales", catalog, batches=True)._list_files._source
        reader = LineageReader("shop.sales", False)
        assert find_first_position(source, reader, None) == 4
    else:
        assert read(catalog) == [0, 1, 2]
        outages.append(ConnectionError("away"))
        with pytest.raises(TableUnavailable, match=r"shop\.sales is unavailable: away"):
            read(catalog, patience=0.0)
    assert pauses == [0.1, 0.2]
    with pytest.raises(ValueError, match="patience is -1"):
        ReadFromIceberg("shop.sales", catalog, batches=True, patience=-1)


def test_files_of_a_snapshot_are_read_with_one_scan(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import Table

    scans = []
    scan = Table.scan

    def count_scans(*arguments: Any, **more: Any) -> Any:
        scans.append(more)
        return scan(*arguments, **more)

    monkeypatch.setattr(Table, "scan", count_scans)
    assert read(catalog, where="id > 0") == [1, 2]
    # One scan lists the files, and one reads them.
    assert len(scans) == 2


class EndpointConnectionError(Exception):
    """Error of botocore, the client of Glue."""


class InvalidUrl(OSError, ValueError):
    """Error of the HTTP client for a wrong address."""


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (ConnectionError("refused"), True),
        (EndpointConnectionError("refused"), True),
        (exceptions.ServiceUnavailableError("503"), True),
        (exceptions.CommitStateUnknownException("504"), True),
        (FileNotFoundError("data.parquet"), False),
        (PermissionError("data.parquet"), False),
        (InvalidUrl("no scheme"), False),
        (exceptions.ForbiddenError("403"), False),
        (exceptions.NoSuchTableError("shop.sales"), False),
        (ValueError("a wrong condition"), False),
    ],
)
def test_errors_of_catalogs_and_storage_are_outages(error: Exception, is_away: bool) -> None:
    assert is_unavailable(error) is is_away
