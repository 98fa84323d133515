"""Tests of `WriteToSql` on SQLite: repeated and concurrent commits, upserts, and errors.

The session `sinks` tests PostgreSQL and MariaDB.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_spark_io import WriteToSql
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.sql.dialects import MARIADB, POSTGRESQL, SQLITE
from beam_spark_io.sql.marks import SqlMarks
from beam_spark_io.sql.sink import SqlCommitter, SqlSink

FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER PRIMARY KEY, price REAL)")
    return file


def make_sink(file: Path, key: tuple[str, ...] = (), shards: int = 1) -> SqlSink:
    connect = partial(sqlite3.connect, file, timeout=0.1)
    return SqlSink(connect, "sqlite", "sales", ("id", "price"), key, shards)


def make_committer(file: Path, key: tuple[str, ...] = ()) -> SqlCommitter:
    return make_sink(file, key).create_committer("run", 0)


def make_rows(*numbers: int, price: float = 1.0) -> list[dict[str, Any]]:
    return [{"id": number, "price": price} for number in numbers]


def read(file: Path) -> list[Any]:
    with sqlite3.connect(file) as connection:
        return connection.execute("SELECT id, price FROM sales ORDER BY id").fetchall()


def test_sql_sink_with_repeated_commit_inserts_rows_once(file: Path) -> None:
    for _ in range(2):
        assert make_committer(file).commit(FIRST, make_rows(1, 2)) == 2
    assert make_committer(file).commit(SECOND, make_rows(3)) == 1
    assert make_committer(file).commit(FIRST, make_rows(1, 2)) == 2
    assert [row[0] for row in read(file)] == [1, 2, 3]


def test_sql_sink_with_upsert_replaces_row_with_same_key(file: Path) -> None:
    committer = make_committer(file, ("id",))
    committer.commit(FIRST, make_rows(1, 2))
    committer.commit(SECOND, [*make_rows(2, 3, price=5.0), beam.Row(id=1, price=7.0)])
    assert read(file) == [(1, 7.0), (2, 5.0), (3, 5.0)]


@pytest.mark.parametrize("step", ["marked", "written"])
def test_sql_sink_with_concurrent_equal_commits_inserts_rows_once(file: Path, step: str) -> None:
    first, second = make_committer(file), make_committer(file)
    assert first._marks.change(FIRST)
    if step == "written":
        first._connection.execute("INSERT INTO sales VALUES (1, 1.0)")
    with pytest.raises(SinkUnavailable, match="locked"):
        second.commit(FIRST, make_rows(1))
    first._connection.commit()
    assert second.commit(FIRST, make_rows(1)) == 1
    assert len(read(file)) == (step == "written")


def test_sql_sink_with_failed_row_rolls_back_the_commit(file: Path) -> None:
    committer = make_committer(file)
    with pytest.raises(sqlite3.IntegrityError):
        committer.commit(FIRST, make_rows(1, 2, 1))
    assert read(file) == []
    committer.commit(FIRST, make_rows(1, 2))
    assert len(read(file)) == 2


def test_sql_sink_refuses_commit_that_contradicts_its_marks(file: Path) -> None:
    committer = make_committer(file)
    committer.commit(FIRST, make_rows(1))
    with pytest.raises(CommitConflict, match="other elements"):
        committer.commit(CommitId("run", 0, 1, b"other"), make_rows(1))
    with pytest.raises(CommitConflict, match="marks are lost"):
        committer.commit(CommitId("run", 0, 3, b"3"), make_rows(3))
    assert len(read(file)) == 1


def test_sql_sink_fails_without_table_and_waits_for_locked_database(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE sales")
    with pytest.raises(sqlite3.OperationalError, match="no such table: sales"):
        make_committer(file).commit(FIRST, make_rows(1))
    sink = SqlSink(partial(sqlite3.connect, "/absent/x.db"), "sqlite", "t", ("a",), (), 1)
    with pytest.raises(SinkUnavailable, match="unable to open"):
        sink.create_committer("run", 0)


def test_sql_sink_assigns_rows_of_a_key_to_one_shard(file: Path) -> None:
    sink = make_sink(file, ("id",), 8)
    assert len({sink.select_shard(row) for row in make_rows(*range(50))}) == 8
    assert sink.select_shard({"id": 5, "price": 1.0}) == sink.select_shard({"id": 5, "price": 9.0})


def test_sql_sink_with_lost_connection_reports_first_error(file: Path) -> None:
    committer = make_committer(file)
    committer._connection = LostConnection()
    committer._marks = SqlMarks(committer._connection, POSTGRESQL, ("run", 0))
    committer._dialect = POSTGRESQL
    with pytest.raises(SinkUnavailable, match="server closed the connection"):
        committer.commit(FIRST, make_rows(1))


def test_sql_error_of_too_large_row_is_not_reported_as_lost_connection(file: Path) -> None:
    committer = make_committer(file)
    committer._connection = LostConnection()
    committer._marks = SqlMarks(committer._connection, MARIADB, ("run", 0))
    committer._dialect = MARIADB
    committer._limit = 9
    with pytest.raises(SinkUnavailable):
        committer.commit(FIRST, [{"id": "12345", "price": "1234"}])
    with pytest.raises(ValueError, match="a row has 10 bytes"):
        committer.commit(FIRST, [*make_rows(1), {"id": "éé", "price": b"123456"}])


class LostConnection:
    """Connection whose server has closed it."""

    def cursor(self) -> Any:
        raise OperationalError("server closed the connection")

    def rollback(self) -> None:
        raise OperationalError("the connection is closed")


@pytest.mark.parametrize("has_mark", [False, True])
def test_database_connection_in_autocommit_mode_is_refused(file: Path, has_mark: bool) -> None:
    if has_mark:
        make_committer(file).commit(FIRST, make_rows(1))
    connect = partial(sqlite3.connect, file, isolation_level=None)
    sink = SqlSink(connect, "sqlite", "sales", ("id", "price"), (), 1)
    with pytest.raises(ValueError, match="without autocommit"):
        sink.create_committer("run", 0)
    with sqlite3.connect(file) as connection:
        marks = connection.execute("SELECT shard FROM beam_exactly_once").fetchall()
    assert marks == ([(0,)] if has_mark else [])


def test_existing_table_of_commit_marks_is_used_without_right_to_create_tables(file: Path) -> None:
    make_committer(file).commit(FIRST, make_rows(1))
    connect = partial(connect_without_rights, file)
    committer = SqlSink(connect, "sqlite", "sales", ("id", "price"), (), 1).create_committer("x", 0)
    assert committer.commit(CommitId("x", 0, 1, b"1"), make_rows(2)) == 1


def connect_without_rights(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file)
    connection.set_authorizer(
        lambda action, *_: (
            sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_TABLE else sqlite3.SQLITE_OK
        )
    )
    return connection


class DriverError(Exception):
    """Error of a driver, with the code under the name that a driver has for it."""

    def __init__(self, *args: Any, **codes: Any) -> None:
        super().__init__(*args)
        for name, code in codes.items():
            setattr(self, name, code)


class OperationalError(DriverError):
    """Error of a connection."""


class ConnectionTimeout(OperationalError):
    """Error of psycopg for a connection that isn't made in time."""


class IntegrityError(DriverError):
    """Error of a constraint."""


@pytest.mark.parametrize(
    ("dialect", "error", "is_away"),
    [
        (POSTGRESQL, OperationalError("connection refused"), True),
        (POSTGRESQL, OperationalError("shutdown", sqlstate="57P01"), True),
        (POSTGRESQL, DriverError("deadlock", sqlstate="40P01"), True),
        (POSTGRESQL, DriverError("serialization failure", pgcode="40001"), True),
        (POSTGRESQL, DriverError("frozen transaction", sqlstate="25P03"), True),
        (POSTGRESQL, ConnectionTimeout("connection timeout", sqlstate=None), True),
        (POSTGRESQL, ConnectionRefusedError("a proxy refuses"), True),
        (POSTGRESQL, OperationalError("unknown option", pgcode="42601"), False),
        (POSTGRESQL, DriverError("no such table", sqlstate="42P01"), False),
        (MARIADB, OperationalError(2006, "gone away"), True),
        (MARIADB, OperationalError(1045, "access denied"), False),
        (MARIADB, OperationalError(1020, "record has changed"), True),
        (MARIADB, OperationalError("deadlock", errno=1213), True),
        (MARIADB, OperationalError(0, ""), True),
        (MARIADB, IntegrityError(1062, "duplicate entry"), False),
        (MARIADB, IntegrityError("duplicate entry", errno=1062), False),
        (SQLITE, DriverError("no code"), False),
    ],
)
def test_sql_sink_waits_after_connection_errors(
    dialect: Any, error: Exception, is_away: bool
) -> None:
    assert dialect.is_unavailable(error) is is_away


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [
        (
            SQLITE,
            'INSERT INTO "s"."t" ("a", "b") VALUES (?, ?) ON CONFLICT ("a") DO UPDATE SET "b" = excluded."b"',
        ),
        (
            MARIADB,
            "INSERT INTO `s`.`t` (`a`, `b`) VALUES (%s, %s) ON DUPLICATE KEY UPDATE `b` = VALUES(`b`)",
        ),
    ],
)
def test_sql_sink_upsert_statement_replaces_rows_in_each_dialect(
    dialect: Any, statement: str
) -> None:
    assert dialect.insert("s.t", ("a", "b"), ("a",)) == statement


def test_percent_sign_in_sql_name_is_not_a_placeholder() -> None:
    assert POSTGRESQL.quote_name("100%") == '"100%%"'
    assert SQLITE.quote_name("100%") == '"100%"'


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dialect": "oracle"}, "expected one of sqlite, postgresql, mariadb"),
        ({"columns": []}, "WriteToSql writes to the table 'sales'"),
        ({"key": ["other"]}, "key has other"),
        ({"shards": 0}, "has 0 shards"),
        ({"every": 0}, "every is 0"),
        ({"every": 0.5}, "every is 0.5"),
        ({"most": -1}, "most is -1"),
    ],
)
def test_sql_sink_with_wrong_arguments_is_refused(arguments: dict[str, Any], text: str) -> None:
    right = {"connect": list, "dialect": "sqlite", "table": "sales", "columns": ["id"]}
    with pytest.raises(ValueError, match=text):
        WriteToSql(**{**right, **arguments})
