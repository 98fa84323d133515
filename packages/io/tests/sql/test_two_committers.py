"""Tests of a SQL committer that is suspended while another one commits, with each dialect's statements.

SQLite runs the statements of all dialects here. The session `sinks` tests two committers on
PostgreSQL and MariaDB.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId
from beam_spark_io.sql import dialects
from beam_spark_io.sql.dialects import DIALECTS
from beam_spark_io.sql.sink import SqlCommitter, SqlSink

FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")
ROWS = [{"id": 1}, {"id": 2}]
LATER_ROWS = [{"id": 3}]


class Cursor(sqlite3.Cursor):
    """Cursor for the statements of all dialects."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return super().execute(_translate(statement), values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        return super().executemany(_translate(statement), rows)


def _translate(statement: str) -> str:
    return statement.replace("%s", "?").replace("INSERT IGNORE", "INSERT OR IGNORE")


@attrs.define
class Connection:
    """Connection of a driver, without SQLite's own names."""

    connection: sqlite3.Connection

    def cursor(self) -> sqlite3.Cursor:
        return self.connection.cursor(Cursor)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


@pytest.fixture(params=list(DIALECTS))
def create(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], SqlCommitter]]:
    """Yields a function that returns a committer of the same shard, with another connection."""
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER)")
    # SQLite has none of the settings that these statements read or change.
    plain = attrs.evolve(
        DIALECTS[request.param],
        table_options="",
        limit_idle_transactions="",
        find_engine="",
        find_statement_limit="",
    )
    monkeypatch.setitem(dialects.DIALECTS, request.param, plain)
    sink = SqlSink(
        lambda: Connection(sqlite3.connect(file)), request.param, "sales", ("id",), (), 1
    )
    committers: list[SqlCommitter] = []

    def create_committer() -> SqlCommitter:
        committers.append(sink.create_committer("run", 0))
        return committers[-1]

    yield create_committer
    for committer in committers:
        committer.close()


def read(committer: SqlCommitter) -> list[int]:
    cursor = committer._connection.cursor()
    cursor.execute("SELECT id FROM sales ORDER BY id")
    return [row[0] for row in cursor.fetchall()]


def suspend_before_mark(committer: SqlCommitter, meanwhile: Callable[[], object]) -> None:
    """Runs a function before the committer changes its mark."""
    marks: Any = committer._marks
    change = marks.change

    def change_later(commit_id: CommitId) -> bool:
        meanwhile()
        return bool(change(commit_id))

    marks.change = change_later


@pytest.mark.parametrize("count", [1, 2])
def test_suspended_sql_committer_that_continues_writes_no_rows(
    create: Callable[[], SqlCommitter], count: int
) -> None:
    suspended, other = create(), create()

    def commit_others() -> None:
        for commit_id, rows in ((FIRST, ROWS), (SECOND, LATER_ROWS))[:count]:
            other.commit(commit_id, rows)

    suspend_before_mark(suspended, commit_others)
    assert suspended.commit(FIRST, ROWS) == 2
    assert read(create()) == [1, 2, 3][: 1 + count]


def test_suspended_sql_committer_with_other_elements_is_refused(
    create: Callable[[], SqlCommitter],
) -> None:
    suspended, other = create(), create()
    suspend_before_mark(suspended, lambda: other.commit(FIRST, ROWS))
    with pytest.raises(CommitConflict, match="other elements"):
        suspended.commit(attrs.evolve(FIRST, digest=b"other"), LATER_ROWS)
    assert read(create()) == [1, 2]
