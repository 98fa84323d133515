"""Writes to tables of Spark's catalog whose data is files in a folder.

The runner adds files to the table's folder exactly once (`publishing`), and then updates the
catalog. It refuses tables for which Spark's INSERT would do more than writing files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
from beam_runner_planner.table_specs import FILE_FORMATS, InvalidTableSpec, TableTarget

from beam_spark_io.spark.frames import parse_struct_type, quote_column
from beam_spark_io.spark.publishing import has_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "spark_catalog"
_USUAL_FORMAT = "parquet"
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key that Spark sets for columns of type CHAR and VARCHAR."""


def find_table_files(session: SparkSession, target: TableTarget) -> TableTarget | None:
    """Returns the files of an existing table as the target of a write; None if the table doesn't
    exist.

    Raises:
        InvalidTableSpec: the table can't be written exactly once.
    """
    catalog, name = _get_session_catalog(session), _make_table_identifier(session, target)
    if not catalog.tableExists(name):
        return None
    table = catalog.getTableMetadata(name)
    pairs = _iterate_scala_collection(table.storage().properties())
    properties = {str(pair._1()): str(pair._2()) for pair in pairs}
    files = attrs.evolve(
        target,
        table="",
        format=_find_file_format(target, table),
        path=_parse_location_path(session, table.location()),
        partition_by=tuple(_iterate_scala_collection(table.partitionColumnNames())),
        options={**properties, **target.options},
    )
    if target.partition_by and target.partition_by != files.partition_by:
        there = ", ".join(files.partition_by) or "no columns"
        raise InvalidTableSpec(f"{target.name} is partitioned by {there}: leave out partition_by")
    _check_columns(target, table.schema().json())
    for partition in _list_partitions(session, name) if files.partition_by else ():
        place = _parse_location_path(session, partition.location())
        if not place.startswith(f"{files.path.rstrip('/')}/"):
            raise InvalidTableSpec(
                f"a partition of {target.name} is in {place}, outside of the table's"
                " folder: the runner can't write such a table"
            )
    return files


def plan_new_table_files(session: SparkSession, target: TableTarget) -> TableTarget:
    """Returns the folder for the files of a new table, which is next to the table's future
    location.

    Raises:
        InvalidTableSpec: the location is in use.
    """
    place = _parse_location_path(
        session,
        _get_session_catalog(session).defaultTablePath(_make_table_identifier(session, target)),
    )
    usual = attrs.evolve(target, table="", format=target.format or _USUAL_FORMAT, path=place)
    if has_files(session, usual):
        raise InvalidTableSpec(
            f"the table {target.name} doesn't exist, but its folder {place} contains"
            " files: move them away, because Spark's catalog has lost the table, or the"
            " files belong to another table"
        )
    return attrs.evolve(usual, path=place.rstrip("/").rpartition("/")[0])


def create_table_files(session: SparkSession, target: TableTarget) -> TableTarget:
    """Returns the files of the table. Creates the table if it doesn't exist.

    Raises:
        InvalidTableSpec: another table with this name was created meanwhile.
    """
    if (files := find_table_files(session, target)) is None:
        nothing = session.createDataFrame([], parse_struct_type(target.schema)).write
        nothing = nothing.format(target.format or _USUAL_FORMAT).options(**target.options)
        nothing.partitionBy(*target.partition_by).mode("ignore").saveAsTable(target.table)
        files = find_table_files(session, target)
        assert files is not None
    return files


def match_table_columns(session: SparkSession, target: TableTarget, frame: DataFrame) -> DataFrame:
    """Converts rows to the columns of an existing table, in the table's order and with the table's
    types.
    """
    spelt = {name.lower(): name for name in frame.columns}
    names = session.table(target.table).columns
    return frame.select(*(frame[quote_column(spelt[name.lower()])].alias(name) for name in names))


def refresh_catalog(session: SparkSession, target: TableTarget, files: TableTarget) -> None:
    """Updates the catalog after files were added or removed."""
    if files.partition_by:
        session.catalog.recoverPartitions(target.table)
    session.catalog.refreshTable(target.table)
    java: Any = session.sparkContext._jvm
    table = _get_session_catalog(session).getTableMetadata(_make_table_identifier(session, target))
    commands = java.org.apache.spark.sql.execution.command.CommandUtils
    commands.updateTableStats(session._jsparkSession, table)


def _make_table_identifier(session: SparkSession, target: TableTarget) -> Any:
    """Returns the identifier of a table in Spark's catalog.

    Raises:
        InvalidTableSpec: the name belongs to another catalog or to a view, or is invalid.
    """
    state: Any = session._jsparkSession.sessionState()
    name = state.sqlParser().parseMultipartIdentifier(target.table)
    parts = list(_iterate_scala_collection(name))
    catalogs = state.catalogManager()
    named = len(parts) > 1 and catalogs.isCatalogRegistered(parts[0])
    catalog = parts.pop(0) if named else catalogs.currentCatalog().name()
    if catalog != _CATALOG:
        raise InvalidTableSpec(
            f"{target.name} is a table of the catalog {catalog}; the runner can write"
            f" only tables of Spark's own catalog, {_CATALOG}"
        )
    if len(parts) > 2:
        raise InvalidTableSpec(
            f"{target.name} isn't the name of a table; expected NAME or DATABASE.NAME,"
            f" and the catalog {parts[0]} must exist"
        )
    if not named and _get_session_catalog(session).isTempView(name):
        raise InvalidTableSpec(f"{target.name} is a view; expected a table")
    java: Any = session.sparkContext._jvm
    database = java.scala.Option.apply(parts[0] if len(parts) > 1 else None)
    return java.org.apache.spark.sql.catalyst.TableIdentifier(parts[-1], database)


def _find_file_format(target: TableTarget, table: Any) -> str:
    if table.tableType().name() == "VIEW":
        raise InvalidTableSpec(f"{target.name} is a view; expected a table")
    provider = table.provider()
    told = str(provider.get()).lower() if provider.isDefined() else "hive"
    if told not in FILE_FORMATS:
        raise InvalidTableSpec(
            f"{target.name} has the format {told}; the runner can write only tables in the formats "
            f"{', '.join(sorted(FILE_FORMATS))}"
        )
    if target.format and target.format != told:
        raise InvalidTableSpec(
            f"{target.name} already exists with the format {told}: omit the argument format"
        )
    if table.bucketSpec().isDefined():
        raise InvalidTableSpec(
            f"{target.name} has buckets, and only Spark's INSERT can write to a table with buckets"
        )
    return told


def _check_columns(target: TableTarget, schema: str) -> None:
    ours, theirs = parse_struct_type(target.schema), parse_struct_type(schema)
    given = {field.name.lower(): field for field in ours}
    there = {field.name.lower(): field for field in theirs}
    if set(given) != set(there):
        raise InvalidTableSpec(
            f"{target.name} has the columns {', '.join(theirs.names)}, but the rows"
            f" have {', '.join(ours.names)}"
        )
    for name, field in there.items():
        told, wanted = given[name].dataType.simpleString(), field.dataType.simpleString()
        if _PADDED in field.metadata:
            raise InvalidTableSpec(
                f"the column {field.name!r} of {target.name} is"
                f" {field.metadata[_PADDED]}; only Spark's INSERT can write such a column"
            )
        if told != wanted:
            raise InvalidTableSpec(
                f"the column {field.name!r} has the type {wanted} in {target.name}, but"
                f" {told} in the rows: set schema="
            )
        if given[name].nullable and not field.nullable:
            raise InvalidTableSpec(
                f"the column {field.name!r} of {target.name} must not contain nulls: set schema="
            )


def _list_partitions(session: SparkSession, name: Any) -> Iterator[Any]:
    java: Any = session.sparkContext._jvm
    return _iterate_scala_collection(
        _get_session_catalog(session).listPartitions(name, java.scala.Option.empty())
    )


def _get_session_catalog(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().catalog()


def _parse_location_path(session: SparkSession, location: Any) -> str:
    java: Any = session.sparkContext._jvm
    return str(java.org.apache.hadoop.fs.Path(location).toString())


def _iterate_scala_collection(scala: Any) -> Iterator[Any]:
    """Yields the items of a Scala collection."""
    left = scala.iterator()
    while left.hasNext():
        yield left.next()
