"""Exactly-once writes of rows to a database table.

Each Spark task writes in a separate transaction. If a task is killed after its commit, Spark runs
it again, and the rows are written twice. So tasks write to a staging table, and mark each row with
its input partition and its attempt. The rows of an attempt appear together, so the writer can
select one complete attempt. Then one transaction copies these rows and adds a row to `WRITES`. The
key of that row is unique, so the transaction can succeed only once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import InvalidTableSpec, TableTarget

from beam_spark_io.spark.reasons import find_failure_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SHARE = "beam_share"
ATTEMPT = "beam_attempt"
"""Columns of the staging table."""
WRITES = "beam_spark_writes"
"""The table of completed writes, with one row for each write."""
_STAGING = "beam_staging_"
_KEY = "staging"
_DROP_SECONDS = 30
_SHOWN = 100

_LOGGER = logging.getLogger(__name__)


class DatabaseError(RuntimeError):
    """Raised if a database refuses an operation; the text contains the database's message."""


def make_staging_table_name(target: TableTarget, writer: str) -> str:
    """Returns the name of the staging table of a writer's attempt, short enough for all databases."""
    number = hashlib.sha256(writer.encode()).hexdigest()[:16]
    return _make_sibling_table_name(target.dbtable, f"{_STAGING}{number}")


def table_exists(session: SparkSession, target: TableTarget) -> bool:
    """Returns whether the target's table exists."""
    with _open_connection(session, target) as connection:
        return _table_exists(session, connection, target)


def check_writable(session: SparkSession, target: TableTarget, columns: Sequence[str]) -> None:
    """Checks that rows with these columns can be written.

    Raises:
        InvalidTableSpec: the database has no transactions, or the table lacks a column.
    """
    with _open_connection(session, target) as connection:
        if not connection.getMetaData().supportsTransactions():
            raise InvalidTableSpec(
                f"Can't write {target.name} exactly once: its database has no transactions"
            )
        if _table_exists(session, connection, target):
            _list_target_column_names(session, target, columns)


def stage_rows(session: SparkSession, target: TableTarget, table: str, frame: DataFrame) -> None:
    """Creates the staging table and writes rows, which include `SHARE` and `ATTEMPT`.

    If the write fails, the function tries to remove the staging table.
    """
    try:
        _write_frame(frame, target.with_table(table), "error")
    except BaseException:
        with contextlib.suppress(Exception), _open_connection(session, target) as connection:
            _drop_table(session, connection, target.with_table(table))
        raise


def publish_rows(
    session: SparkSession,
    target: TableTarget,
    schema: StructType,
    table: str,
    go_on: Callable[[], None],
) -> None:
    """Copies the staging table to the target table, which is created if needed. A repeated call does
    nothing.

    Args:
        session: the Spark session.
        target: the target table.
        schema: the schema of its rows.
        table: the name of the staging table.
        go_on: raises if the write was cancelled; called last before the commit.

    Raises:
        InvalidTableSpec: the table lacks a column.
        DatabaseError: the database reports an error. Nothing was written then.
    """
    with _open_connection(session, target) as connection:
        if not _table_exists(session, connection, target):
            _write_frame(session.createDataFrame([], schema), target, "append")
        writes = _make_sibling_table_name(target.dbtable, WRITES)
        if not _table_exists(session, connection, target.with_table(writes)):
            _execute_statement(
                connection, f"CREATE TABLE {writes} ({_KEY} VARCHAR(255) NOT NULL PRIMARY KEY)"
            )
        # Build the statement before the transaction starts: it reads the table's columns over another
        # connection, which the transaction would block.
        copy = _make_copy_statement(session, target, schema.fieldNames(), table)
        connection.setAutoCommit(False)
        if not _has_rows(connection, f"SELECT 1 FROM {writes} WHERE {_KEY} = '{table}'"):
            # A concurrent attempt at the same write waits here, and then fails.
            _execute_statement(connection, f"INSERT INTO {writes} VALUES ('{table}')")
            if target.mode == "overwrite":
                _execute_statement(connection, f"DELETE FROM {target.dbtable}")
            _execute_statement(connection, copy)
        # Check for a cancellation before the commit: the database doesn't detect it, and the user
        # can have started the job again.
        go_on()
        connection.commit()
        connection.setAutoCommit(True)
        try:
            _drop_table(session, connection, target.with_table(table))
        except DatabaseError as error:
            # A task that Spark has given up can still lock the table.
            _LOGGER.warning("Can't remove a temporary table: %s", error)


def _make_copy_statement(
    session: SparkSession, target: TableTarget, columns: Sequence[str], table: str
) -> str:
    """Returns the SQL statement that copies rows from a staging table to the target: for each
    partition, the rows of one attempt.
    """
    dialect = _get_spark_sql_package(session).jdbc.JdbcDialects.get(target.option("url"))
    quoted = dialect.quoteIdentifier
    into = ", ".join(map(quoted, _list_target_column_names(session, target, columns)))
    those = ", ".join(f"s.{quoted(name)}" for name in columns)
    share, attempt = quoted(SHARE), quoted(ATTEMPT)
    return (
        f"INSERT INTO {target.dbtable} ({into}) SELECT {those} FROM {table} s JOIN"
        f" (SELECT {share} AS share_number, MIN({attempt}) AS counts FROM {table} GROUP BY "
        f"{share}) w"
        f" ON s.{share} = w.share_number AND s.{attempt} = w.counts"
    )


def _list_target_column_names(
    session: SparkSession, target: TableTarget, columns: Sequence[str]
) -> tuple[str, ...]:
    """Returns the columns in the target table's spelling, because Spark ignores case."""
    there = session.read.format(target.format).options(**target.options).load().columns
    spelt = {name.lower(): name for name in there} | {name: name for name in there}
    found = [spelt.get(name) or spelt.get(name.lower()) for name in columns]
    if None in found:
        missing = columns[found.index(None)]
        raise InvalidTableSpec(
            f"the column {missing!r} is missing from {target.name}, which has"
            f" {', '.join(sorted(there))}"
        )
    return tuple(filter(None, found))


def _write_frame(frame: DataFrame, target: TableTarget, mode: str) -> None:
    frame.write.format(target.format).options(**target.options).mode(mode).save()


@contextlib.contextmanager
def _open_connection(session: SparkSession, target: TableTarget) -> Iterator[Any]:
    """Yields a connection to the database, opened in the same way as Spark opens it."""
    dialect = _get_spark_sql_package(session).jdbc.JdbcDialects.get(target.option("url"))
    connection = dialect.createConnectionFactory(_make_jdbc_options(session, target)).apply(-1)
    try:
        yield connection
    except BaseException:
        with contextlib.suppress(
            Exception
        ):  # Ignore errors of the rollback, for example if no transaction is open
            connection.rollback()
        raise
    finally:
        connection.close()


def _table_exists(session: SparkSession, connection: Any, target: TableTarget) -> bool:
    utilities = _get_spark_sql_package(session).execution.datasources.jdbc.JdbcUtils
    return bool(utilities.tableExists(connection, _make_jdbc_options(session, target)))


def _make_jdbc_options(session: SparkSession, target: TableTarget) -> Any:
    java: Any = session.sparkContext._jvm
    options = java.java.util.HashMap()
    for name, value in target.options.items():
        options.put(name, value)
    scala = java.PythonUtils.toScalaMap(options)
    return _get_spark_sql_package(session).execution.datasources.jdbc.JdbcOptionsInWrite(scala)


def _get_spark_sql_package(session: SparkSession) -> Any:
    java: Any = session.sparkContext._jvm
    return java.org.apache.spark.sql


def _drop_table(session: SparkSession, connection: Any, target: TableTarget) -> None:
    if _table_exists(session, connection, target):
        _execute_statement(connection, f"DROP TABLE {target.dbtable}", _DROP_SECONDS)


def _execute_statement(connection: Any, text: str, seconds: int = 0) -> None:
    with _open_statement(connection, text) as statement:
        statement.setQueryTimeout(seconds)
        statement.executeUpdate(text)


def _has_rows(connection: Any, query: str) -> bool:
    with _open_statement(connection, query) as statement:
        return bool(statement.executeQuery(query).next())


@contextlib.contextmanager
def _open_statement(connection: Any, text: str) -> Iterator[Any]:
    statement = connection.createStatement()
    try:
        yield statement
    except Exception as error:
        raise DatabaseError(
            f"{find_failure_reason(error)} (in the statement: {text[:_SHOWN]})"
        ) from error
    finally:
        statement.close()


def _make_sibling_table_name(table: str, name: str) -> str:
    """Returns the name of a table in the same schema."""
    schema, dot, _ = table.rpartition(".")
    return f"{schema}{dot}{name}"
