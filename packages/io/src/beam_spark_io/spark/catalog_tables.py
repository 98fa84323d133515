"""Tables of Spark's catalog that are files in a folder: where these go, and what the catalog is told of them.

Rows get there as into any folder (`publishing`), each once. What Spark's own INSERT would see to beyond that, and files
alone do not, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
from beam_runner_planner.table_specs import FILE_FORMATS, TableTarget, WrongTable

from beam_spark_io.spark.frames import quoted, struct_of
from beam_spark_io.spark.publishing import is_there

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "spark_catalog"
_USUAL_FORMAT = "parquet"
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"""What Spark notes of columns whose texts have a length."""


def found(session: SparkSession, target: TableTarget) -> TableTarget | None:
    """The files of a table that is there, as what is to be written; None if there is none of that name.

    Raises:
        WrongTable: such rows can't be written to it so that each is there once.
    """
    catalog, name = _catalog(session), _identifier(session, target)
    if not catalog.tableExists(name):
        return None
    table = catalog.getTableMetadata(name)
    files = attrs.evolve(
        target,
        table="",
        format=_format(target, table),
        path=_path(session, table.location()),
        partition_by=tuple(_each(table.partitionColumnNames())),
        options={**dict(_pairs(table.storage().properties())), **target.options},
    )
    if target.partition_by and target.partition_by != files.partition_by:
        there = ", ".join(files.partition_by) or "no columns"
        raise WrongTable(f"{target.name} is dealt into folders by {there}: leave out partition_by")
    _check_columns(target, table.schema().json())
    for partition in _partitions(session, name) if files.partition_by else ():
        place = _path(session, partition.location())
        if not place.startswith(f"{files.path.rstrip('/')}/"):
            raise WrongTable(
                f"a partition of {target.name} is in {place}, outside of the table's own folder"
            )
    return files


def waiting(session: SparkSession, target: TableTarget) -> TableTarget:
    """Files of a table that is not there yet, as what is to be written: beside its place.

    Raises:
        WrongTable: its place is taken.
    """
    place = _path(session, _catalog(session).defaultTablePath(_identifier(session, target)))
    usual = attrs.evolve(target, table="", format=target.format or _USUAL_FORMAT, path=place)
    if is_there(session, usual):
        raise WrongTable(
            f"there is no table {target.name}, but files where it would be, in {place}: Spark's catalog has forgotten"
            " them, or they are another's"
        )
    return attrs.evolve(usual, path=place.rstrip("/").rpartition("/")[0])


def made(session: SparkSession, target: TableTarget) -> TableTarget:
    """The files of the table, which is made if it is not there.

    Raises:
        WrongTable: another one has come to be there meanwhile.
    """
    if (files := found(session, target)) is None:
        nothing = session.createDataFrame([], struct_of(target.schema)).write
        nothing = nothing.format(target.format or _USUAL_FORMAT).options(**target.options)
        nothing.partitionBy(*target.partition_by).mode("ignore").saveAsTable(target.table)
        files = found(session, target)
        assert files is not None
    return files


def columns_of(session: SparkSession, target: TableTarget, frame: DataFrame) -> DataFrame:
    """Rows with the columns of a table that is there, in its order, as its files have them."""
    spelt = {name.lower(): name for name in frame.columns}
    names = session.table(target.table).columns
    return frame.select(*(frame[quoted(spelt[name.lower()])].alias(name) for name in names))


def refresh(session: SparkSession, target: TableTarget, files: TableTarget) -> None:
    """Tells the catalog that files were added, or are gone."""
    if files.partition_by:
        session.catalog.recoverPartitions(target.table)
    session.catalog.refreshTable(target.table)
    java: Any = session.sparkContext._jvm
    table = _catalog(session).getTableMetadata(_identifier(session, target))
    commands = java.org.apache.spark.sql.execution.command.CommandUtils
    commands.updateTableStats(session._jsparkSession, table)


def _identifier(session: SparkSession, target: TableTarget) -> Any:
    """The name of a table, as Spark's catalog takes it.

    Raises:
        WrongTable: it is one of another catalog, of a view, or of nothing.
    """
    state: Any = session._jsparkSession.sessionState()
    name = state.sqlParser().parseMultipartIdentifier(target.table)
    parts = list(_each(name))
    catalogs = state.catalogManager()
    named = len(parts) > 1 and catalogs.isCatalogRegistered(parts[0])
    catalog = parts.pop(0) if named else catalogs.currentCatalog().name()
    if catalog != _CATALOG:
        raise WrongTable(
            f"{target.name} is a table of the catalog {catalog}: those of Spark's own, {_CATALOG}, can be written alone"
        )
    if len(parts) > 2:
        raise WrongTable(
            f"{target.name} names no table: it is NAME or DATABASE.NAME, or there is no catalog {parts[0]}"
        )
    if not named and _catalog(session).isTempView(name):
        raise WrongTable(f"{target.name} is a view, and no table")
    java: Any = session.sparkContext._jvm
    database = java.scala.Option.apply(parts[0] if len(parts) > 1 else None)
    return java.org.apache.spark.sql.catalyst.TableIdentifier(parts[-1], database)


def _format(target: TableTarget, table: Any) -> str:
    if table.tableType().name() == "VIEW":
        raise WrongTable(f"{target.name} is a view, and no table")
    provider = table.provider()
    told = str(provider.get()).lower() if provider.isDefined() else "hive"
    if told not in FILE_FORMATS:
        raise WrongTable(
            f"{target.name} is a table of {told}, and rows can be written to those of"
            f" {', '.join(sorted(FILE_FORMATS))}"
        )
    if target.format and target.format != told:
        raise WrongTable(f"{target.name} is a table of {told}: leave out the format")
    if table.bucketSpec().isDefined():
        raise WrongTable(
            f"{target.name} has buckets, which only Spark's own INSERT deals rows into"
        )
    return told


def _check_columns(target: TableTarget, schema: str) -> None:
    ours, theirs = struct_of(target.schema), struct_of(schema)
    given = {field.name.lower(): field for field in ours}
    there = {field.name.lower(): field for field in theirs}
    if set(given) != set(there):
        raise WrongTable(
            f"{target.name} has the columns {', '.join(theirs.names)}, and rows have {', '.join(ours.names)}"
        )
    for name, field in there.items():
        told, wanted = given[name].dataType.simpleString(), field.dataType.simpleString()
        if _PADDED in field.metadata:
            raise WrongTable(
                f"the column {field.name!r} of {target.name} is {field.metadata[_PADDED]}, which only Spark's own"
                " INSERT looks after"
            )
        if told != wanted:
            raise WrongTable(
                f"the column {field.name!r} of {target.name} is {wanted}, and of rows {told}: say schema="
            )
        if given[name].nullable and not field.nullable:
            raise WrongTable(
                f"the column {field.name!r} of {target.name} has no nulls: say schema="
            )


def _partitions(session: SparkSession, name: Any) -> Iterator[Any]:
    java: Any = session.sparkContext._jvm
    return _each(_catalog(session).listPartitions(name, java.scala.Option.empty()))


def _catalog(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().catalog()


def _path(session: SparkSession, location: Any) -> str:
    java: Any = session.sparkContext._jvm
    return str(java.org.apache.hadoop.fs.Path(location).toString())


def _each(scala: Any) -> Iterator[Any]:
    """What is in a collection of Scala's."""
    left = scala.iterator()
    while left.hasNext():
        yield left.next()


def _pairs(scala: Any) -> Iterator[tuple[str, str]]:
    """What is in a map of Scala's."""
    for pair in _each(scala):
        yield str(pair._1()), str(pair._2())
