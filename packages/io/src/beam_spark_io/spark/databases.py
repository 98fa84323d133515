"""How rows get into a table of a database, each once, however often it is tried.

Spark's tasks write with a connection and a transaction each, and one that is killed after its commit writes its rows
once more. So they write to a table beside the one that is meant, each row with the share of the input that it is of
and with the attempt at it: what an attempt has written is there as a whole, so that one of them counts. Then one
transaction copies these rows and makes a row about that in `WRITES`, whose key can be there only once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import TableTarget, WrongTable

from beam_spark_io.spark.reasons import reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SHARE = "beam_share"
ATTEMPT = "beam_attempt"
"""Columns of the table beside."""
WRITES = "beam_spark_writes"
"""The table that tells what was done: a row for each write."""
_STAGING = "beam_staging_"
_KEY = "staging"
_DROP_SECONDS = 30
_SHOWN = 100

_LOGGER = logging.getLogger(__name__)


class DatabaseRefused(RuntimeError):
    """A database does not do what it is asked; the text has its words."""


def staging_table(target: TableTarget, writer: str) -> str:
    """The name of the table beside a target's, for a writer's attempt: as short as all databases want it."""
    number = hashlib.sha256(writer.encode()).hexdigest()[:16]
    return _beside(target.dbtable, f"{_STAGING}{number}")


def is_there(session: SparkSession, target: TableTarget) -> bool:
    """Whether the target's table is there."""
    with _connected(session, target) as connection:
        return _exists(session, connection, target)


def check(session: SparkSession, target: TableTarget, columns: Sequence[str]) -> None:
    """Looks whether rows with these columns can be written.

    Raises:
        WrongTable: the database has no transactions, or the table lacks a column.
    """
    with _connected(session, target) as connection:
        if not connection.getMetaData().supportsTransactions():
            raise WrongTable(
                f"{target.name} can't be written so that each row is there once: its database has no transactions"
            )
        if _exists(session, connection, target):
            _columns_there(session, target, columns)


def stage(session: SparkSession, target: TableTarget, table: str, frame: DataFrame) -> None:
    """Writes rows, which have `SHARE` and `ATTEMPT`, to the table beside, which is made.

    What there is of it if that fails is removed, if that can be done.
    """
    try:
        _written(frame, target.beside(table), "error")
    except BaseException:
        with contextlib.suppress(Exception), _connected(session, target) as connection:
            _drop(session, connection, target.beside(table))
        raise


def publish(
    session: SparkSession,
    target: TableTarget,
    schema: StructType,
    table: str,
    go_on: Callable[[], None],
) -> None:
    """Puts what is in the table beside into the target's, which is made if need be; again does nothing.

    Args:
        session: Spark's.
        target: the table.
        schema: of its rows.
        table: the name of the one beside.
        go_on: raises if that is not wanted any more; asked last before the commit.

    Raises:
        WrongTable: the table lacks a column.
        DatabaseRefused: whatever the database has to say against it. Nothing was done then.
    """
    with _connected(session, target) as connection:
        if not _exists(session, connection, target):
            _written(session.createDataFrame([], schema), target, "append")
        writes = _beside(target.dbtable, WRITES)
        if not _exists(session, connection, target.beside(writes)):
            _run(connection, f"CREATE TABLE {writes} ({_KEY} VARCHAR(255) NOT NULL PRIMARY KEY)")
        # Asks by another connection, which may not find the table locked.
        copy = _copy(session, target, schema.fieldNames(), table)
        connection.setAutoCommit(False)
        if not _has(connection, f"SELECT 1 FROM {writes} WHERE {_KEY} = '{table}'"):
            # Whoever else does the same waits here, and then fails.
            _run(connection, f"INSERT INTO {writes} VALUES ('{table}')")
            if target.mode == "overwrite":
                _run(connection, f"DELETE FROM {target.dbtable}")
            _run(connection, copy)
        # Databases don't hear of a cancel, and who was told of that may begin again.
        go_on()
        connection.commit()
        connection.setAutoCommit(True)
        try:
            _drop(session, connection, target.beside(table))
        except DatabaseRefused as error:
            # A task that Spark has given up may still hold it.
            _LOGGER.warning("a table is left: %s", error)


def _copy(session: SparkSession, target: TableTarget, columns: Sequence[str], table: str) -> str:
    """A statement that copies one attempt's rows of each share."""
    dialect = _java(session).jdbc.JdbcDialects.get(target.option("url"))
    quoted = dialect.quoteIdentifier
    into = ", ".join(map(quoted, _columns_there(session, target, columns)))
    those = ", ".join(f"s.{quoted(name)}" for name in columns)
    share, attempt = quoted(SHARE), quoted(ATTEMPT)
    return (
        f"INSERT INTO {target.dbtable} ({into}) SELECT {those} FROM {table} s JOIN"
        f" (SELECT {share} AS share_number, MIN({attempt}) AS counts FROM {table} GROUP BY {share}) w"
        f" ON s.{share} = w.share_number AND s.{attempt} = w.counts"
    )


def _columns_there(
    session: SparkSession, target: TableTarget, columns: Sequence[str]
) -> tuple[str, ...]:
    """The columns as the target's table spells them: Spark does not tell upper from lower case."""
    there = session.read.format(target.format).options(**target.options).load().columns
    spelt = {name.lower(): name for name in there} | {name: name for name in there}
    found = [spelt.get(name) or spelt.get(name.lower()) for name in columns]
    if None in found:
        missing = columns[found.index(None)]
        raise WrongTable(
            f"{target.name} has no column {missing!r}; it has {', '.join(sorted(there))}"
        )
    return tuple(filter(None, found))


def _written(frame: DataFrame, target: TableTarget, mode: str) -> None:
    frame.write.format(target.format).options(**target.options).mode(mode).save()


@contextlib.contextmanager
def _connected(session: SparkSession, target: TableTarget) -> Iterator[Any]:
    """A connection to the database, made as Spark makes it."""
    dialect = _java(session).jdbc.JdbcDialects.get(target.option("url"))
    connection = dialect.createConnectionFactory(_options(session, target)).apply(-1)
    try:
        yield connection
    except BaseException:
        with contextlib.suppress(Exception):  # there is none to roll back, say
            connection.rollback()
        raise
    finally:
        connection.close()


def _exists(session: SparkSession, connection: Any, target: TableTarget) -> bool:
    utilities = _java(session).execution.datasources.jdbc.JdbcUtils
    return bool(utilities.tableExists(connection, _options(session, target)))


def _options(session: SparkSession, target: TableTarget) -> Any:
    java: Any = session.sparkContext._jvm
    options = java.java.util.HashMap()
    for name, value in target.options.items():
        options.put(name, value)
    scala = java.PythonUtils.toScalaMap(options)
    return _java(session).execution.datasources.jdbc.JdbcOptionsInWrite(scala)


def _java(session: SparkSession) -> Any:
    java: Any = session.sparkContext._jvm
    return java.org.apache.spark.sql


def _drop(session: SparkSession, connection: Any, target: TableTarget) -> None:
    if _exists(session, connection, target):
        _run(connection, f"DROP TABLE {target.dbtable}", _DROP_SECONDS)


def _run(connection: Any, text: str, seconds: int = 0) -> None:
    with _statement(connection, text) as statement:
        statement.setQueryTimeout(seconds)
        statement.executeUpdate(text)


def _has(connection: Any, query: str) -> bool:
    with _statement(connection, query) as statement:
        return bool(statement.executeQuery(query).next())


@contextlib.contextmanager
def _statement(connection: Any, text: str) -> Iterator[Any]:
    statement = connection.createStatement()
    try:
        yield statement
    except Exception as error:
        raise DatabaseRefused(f"{reason_of(error)} (at: {text[:_SHOWN]})") from error
    finally:
        statement.close()


def _beside(table: str, name: str) -> str:
    """The name of a table in the same schema."""
    schema, dot, _ = table.rpartition(".")
    return f"{schema}{dot}{name}"
