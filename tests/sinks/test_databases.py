"""`WriteToSql` on real PostgreSQL and MariaDB: repeated commits, lost connections, locks, and types.

`test_database_kills.py` runs streams into the same servers while they are killed.
"""

from __future__ import annotations

import datetime
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import psycopg2
import pymysql
import pytest
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.sql.sink import SqlCommitter, SqlSink
from cutting_proxy import run_cutting_proxy
from database_servers import DatabaseServer

pytestmark = pytest.mark.timeout(300)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sql.md"
FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")
INTEGRITY_ERRORS = (psycopg.IntegrityError, pymysql.IntegrityError)


@pytest.fixture
def shop(database: DatabaseServer) -> DatabaseServer:
    """Returns the database server with an empty table, and without commit marks."""
    database.query("DROP TABLE IF EXISTS beam_exactly_once")
    database.query("DROP TABLE IF EXISTS sales")
    database.query("CREATE TABLE sales (id INTEGER PRIMARY KEY, price INTEGER)")
    return database


def create_committer(
    shop: DatabaseServer,
    key: tuple[str, ...] = (),
    place: tuple[str, int] = ("run", 0),
    connect: Callable[[], Any] | None = None,
) -> SqlCommitter:
    columns = ("id", "price")
    sink = SqlSink(connect or shop.connect, shop.dialect, "sales", columns, key, 1)
    return sink.create_committer(*place)


def make_rows(*numbers: int, price: int = 1) -> list[dict[str, int]]:
    return [{"id": number, "price": price} for number in numbers]


def read(shop: DatabaseServer) -> list[tuple[int, int]]:
    return [tuple(row) for row in shop.query("SELECT id, price FROM sales ORDER BY id")]


def test_repeated_database_commit_inserts_its_rows_once(shop: DatabaseServer) -> None:
    for _ in range(2):
        assert create_committer(shop).commit(FIRST, make_rows(1, 2)) == 2
    assert create_committer(shop).commit(SECOND, make_rows(3)) == 1
    assert create_committer(shop).commit(FIRST, make_rows(1, 2)) == 2
    assert [row[0] for row in read(shop)] == [1, 2, 3]


def test_database_row_with_the_same_key_is_replaced(shop: DatabaseServer) -> None:
    committer = create_committer(shop, ("id",))
    committer.commit(FIRST, make_rows(1, 2))
    committer.commit(SECOND, [*make_rows(2, 3, 3, price=5), {"id": 1, "price": 7}])
    assert read(shop) == [(1, 7), (2, 5), (3, 5)]


def test_failed_row_rolls_back_its_commit_and_the_commit_mark(shop: DatabaseServer) -> None:
    with pytest.raises(INTEGRITY_ERRORS):
        create_committer(shop).commit(FIRST, make_rows(*range(500), 7))
    assert read(shop) == []
    assert create_committer(shop).commit(FIRST, make_rows(1)) == 1


def test_lost_and_changed_commit_marks_are_refused(shop: DatabaseServer) -> None:
    create_committer(shop).commit(FIRST, make_rows(1))
    with pytest.raises(CommitConflict, match="other elements"):
        create_committer(shop).commit(CommitId("run", 0, 1, b"other"), make_rows(2))
    shop.query("DROP TABLE beam_exactly_once")
    with pytest.raises(CommitConflict, match="marks are lost"):
        create_committer(shop).commit(SECOND, make_rows(2))
    assert len(read(shop)) == 1


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_second_committer_of_a_commit_waits_for_the_first(shop: DatabaseServer, ends: str) -> None:
    first, second = create_committer(shop), create_committer(shop)
    assert first._marks.change(FIRST)
    first._connection.cursor().executemany(first._statement, [(1, 1)])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(second.commit, FIRST, make_rows(1))
        time.sleep(0.5)
        assert not waiting.done()
        getattr(first._connection, ends)()
        assert waiting.result(30) == 1
    assert read(shop) == [(1, 1)]


def test_sink_shards_that_start_together_create_one_table_of_commit_marks(
    shop: DatabaseServer,
) -> None:
    shards, begin = 16, threading.Barrier(16)

    def begin_shard(shard: int) -> int:
        begin.wait()
        committer = create_committer(shop, (), ("run", shard))
        return committer.commit(CommitId("run", shard, 1, b"1"), make_rows(shard))

    with ThreadPoolExecutor(shards) as threads:
        assert list(threads.map(begin_shard, range(shards))) == [1] * shards
    assert len(read(shop)) == shards


@pytest.mark.parametrize("reaches_server", [False, True])
def test_commit_mark_shows_the_outcome_after_a_connection_lost_at_commit(
    shop: DatabaseServer, reaches_server: bool
) -> None:
    with run_cutting_proxy(shop.port) as proxy:
        connect = shop.connect_to(proxy.port)
        committer = create_committer(shop, connect=connect)
        proxy.cut_at(b"COMMIT", reaches_server=reaches_server)
        with pytest.raises(SinkUnavailable):
            committer.commit(FIRST, make_rows(1))
        assert proxy.cuts == 1
        assert len(read(shop)) == reaches_server
        assert create_committer(shop, connect=connect).commit(FIRST, make_rows(1)) == 1
    assert read(shop) == [(1, 1)]


@pytest.mark.parametrize("step", ["marked", "committed"])
def test_killed_database_keeps_each_commit_once(shop: DatabaseServer, step: str) -> None:
    committer = create_committer(shop)
    if step == "committed":
        committer.commit(FIRST, make_rows(1))
    else:
        assert committer._marks.change(FIRST)
    shop.kill()
    try:
        with pytest.raises(SinkUnavailable):
            committer.commit(FIRST, make_rows(1))
        with pytest.raises(SinkUnavailable):
            create_committer(shop)
    finally:
        shop.start()
    assert len(read(shop)) == (step == "committed")
    assert create_committer(shop).commit(FIRST, make_rows(1)) == 1
    assert read(shop) == [(1, 1)]


def test_frozen_database_delays_a_commit(shop: DatabaseServer) -> None:
    committer = create_committer(shop)
    with ThreadPoolExecutor(1) as threads:
        shop.freeze()
        try:
            waiting = threads.submit(committer.commit, FIRST, make_rows(1))
            time.sleep(1)
            assert not waiting.done()
        finally:
            shop.thaw()
        assert waiting.result(30) == 1
    assert read(shop) == [(1, 1)]


def test_timeout_of_the_driver_ends_the_wait_for_a_frozen_database(mariadb: DatabaseServer) -> None:
    mariadb.query("CREATE OR REPLACE TABLE sales (id INTEGER PRIMARY KEY, price INTEGER)")
    mariadb.query("DROP TABLE IF EXISTS beam_exactly_once")
    connect = mariadb.connect_to(mariadb.port, read_timeout=1, connect_timeout=1)
    committer = create_committer(mariadb, connect=connect)
    mariadb.freeze()
    try:
        with pytest.raises(SinkUnavailable):
            committer.commit(FIRST, make_rows(1))
        with pytest.raises(SinkUnavailable):
            create_committer(mariadb, connect=connect)
    finally:
        mariadb.thaw()
    assert create_committer(mariadb).commit(FIRST, make_rows(1)) == 1
    assert read(mariadb) == [(1, 1)]


LIMITS = {
    "postgresql": ("SET idle_in_transaction_session_timeout = '1s'", "SHOW {}", "1min"),
    "mariadb": ("SET SESSION idle_transaction_timeout = 1", "SELECT @@{}", 60),
}
NAMES = {
    "postgresql": "idle_in_transaction_session_timeout",
    "mariadb": "idle_transaction_timeout",
}


def test_frozen_process_loses_its_lock_and_its_commit(shop: DatabaseServer) -> None:
    limit, show, usual = LIMITS[shop.dialect]
    frozen = create_committer(shop)
    cursor = frozen._connection.cursor()
    cursor.execute(show.format(NAMES[shop.dialect]))
    assert cursor.fetchone()[0] == usual
    cursor.execute(limit)
    frozen._connection.commit()
    assert frozen._marks.change(FIRST)
    assert create_committer(shop).commit(FIRST, make_rows(1)) == 1  # waits for the limit
    with pytest.raises(SinkUnavailable):
        frozen.commit(FIRST, make_rows(1))
    assert read(shop) == [(1, 1)]


def test_exactly_once_database_commit_is_retried_after_a_deadlock(shop: DatabaseServer) -> None:
    shop.query("INSERT INTO sales VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)")
    other = shop.connect()
    cursor = other.cursor()
    # Each database ends the transaction that closes the circle, or that has changed fewer rows.
    if shop.dialect == "postgresql":
        cursor.execute("SET deadlock_timeout = '1h'")
    cursor.execute("UPDATE sales SET price = 5 WHERE id > 1")
    committer = create_committer(shop, ("id",))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(committer.commit, FIRST, make_rows(1, 2))
        time.sleep(0.5)
        cursor.execute("UPDATE sales SET price = 5 WHERE id = 1")
        with pytest.raises(SinkUnavailable, match="(?i)deadlock"):
            waiting.result(30)
    other.commit()
    assert create_committer(shop, ("id",)).commit(FIRST, make_rows(1, 2)) == 2
    assert read(shop)[:2] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_exactly_once_database_commit_is_retried_with_stricter_isolation(
    shop: DatabaseServer, level: str
) -> None:
    def connect() -> Any:
        connection = shop.connect()
        cursor = connection.cursor()
        scope = "SESSION CHARACTERISTICS AS" if shop.dialect == "postgresql" else "SESSION"
        cursor.execute(f"SET {scope} TRANSACTION ISOLATION LEVEL {level}")
        connection.commit()
        return connection

    first, second = (create_committer(shop, connect=connect) for _ in range(2))
    assert first._marks.change(FIRST)
    first._connection.cursor().executemany(first._statement, [(1, 1)])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(second.commit, FIRST, make_rows(1))
        time.sleep(0.5)
        first._connection.commit()
        try:
            assert waiting.result(30) == 1
        except SinkUnavailable:  # a serialization failure
            assert create_committer(shop, connect=connect).commit(FIRST, make_rows(1)) == 1
    assert read(shop) == [(1, 1)]


def test_database_connection_in_autocommit_mode_is_refused(shop: DatabaseServer) -> None:
    connect = shop.connect_to(shop.port, autocommit=True)
    with pytest.raises(ValueError, match="without autocommit"):
        create_committer(shop, connect=connect)
    assert shop.query("SELECT count(*) FROM beam_exactly_once") in ([(0,)], [[0]])


def test_table_without_transactions_is_refused(mariadb: DatabaseServer) -> None:
    for engine in ("MyISAM", "Aria"):
        mariadb.query(
            f"CREATE OR REPLACE TABLE sales (id INTEGER, price INTEGER) ENGINE = {engine}"
        )
        with pytest.raises(ValueError, match=f"engine {engine}, which has no transactions"):
            create_committer(mariadb)
    mariadb.query("DROP TABLE sales")


def test_role_without_the_right_to_create_tables_writes(postgresql: DatabaseServer) -> None:
    for statement in (
        "DROP TABLE IF EXISTS sales",
        "CREATE TABLE sales (id INTEGER PRIMARY KEY, price INTEGER)",
        "DROP TABLE IF EXISTS beam_exactly_once",
        "DROP ROLE IF EXISTS clerk",
        "CREATE ROLE clerk LOGIN",
        "GRANT INSERT ON sales TO clerk",
    ):
        postgresql.query(statement)
    connect = postgresql.connect_to(postgresql.port, user="clerk")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        create_committer(postgresql, connect=connect)
    (create,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    postgresql.query(create)
    postgresql.query("GRANT SELECT, INSERT, UPDATE, DELETE ON beam_exactly_once TO clerk")
    assert create_committer(postgresql, connect=connect).commit(FIRST, make_rows(1)) == 1
    assert create_committer(postgresql, connect=connect).commit(FIRST, make_rows(1)) == 1
    assert read(postgresql) == [(1, 1)]
    postgresql.query("DROP OWNED BY clerk")
    postgresql.query("DROP ROLE clerk")


def test_documented_database_options_are_known_to_the_database_driver(
    postgresql: DatabaseServer,
) -> None:
    """The options of the page's function connect; an unknown option would be an error."""
    options = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 60_000}
    text = PAGE.read_text("utf-8")
    assert all(name in text for name in options)
    postgresql.connect_to(postgresql.port, **options)().close()


TYPES = {
    "postgresql": 'id INTEGER, words TEXT, data BYTEA, money NUMERIC(20, 4), at TIMESTAMP, "100%" DOUBLE PRECISION',
    "mariadb": "id INTEGER, words LONGTEXT, data LONGBLOB, money DECIMAL(20, 4), at DATETIME(6), `100%` DOUBLE",
}
VALUES = [
    (1, None, None, None, None, None),
    (2, "", b"", Decimal(0), datetime.datetime(1970, 1, 1), 0.0),
    (
        3,
        "Zürich 東京 🚀 '\"\\%s %% ;--\n\t",
        bytes(range(256)),
        Decimal("-1234567890123456.7891"),
        datetime.datetime(2026, 2, 28, 23, 59, 59, 123456),
        -1.7976931348623157e308,
    ),
    (4, "long ⛵" * 200_000, bytes(2_000_000), Decimal("0.0001"), datetime.datetime(9999, 12, 31), 0.1),
]  # fmt: skip


@pytest.mark.parametrize("key", [(), ("id",)])
def test_values_of_all_types_are_stored_exactly(shop: DatabaseServer, key: tuple[str, ...]) -> None:
    shop.query("DROP TABLE IF EXISTS kinds")
    shop.query(f"CREATE TABLE kinds ({TYPES[shop.dialect]}, PRIMARY KEY (id))")
    columns = ("id", "words", "data", "money", "at", "100%")
    sink = SqlSink(shop.connect, shop.dialect, "kinds", columns, key, 1)
    rows = [dict(zip(columns, values, strict=True)) for values in VALUES]
    assert sink.create_committer("run", 0).commit(FIRST, rows) == len(rows)
    assert [tuple(row) for row in shop.query("SELECT * FROM kinds ORDER BY id")] == VALUES


def test_value_that_the_database_refuses_fails_without_a_wait(postgresql: DatabaseServer) -> None:
    postgresql.query("DROP TABLE IF EXISTS texts")
    postgresql.query("CREATE TABLE texts (words TEXT)")
    sink = SqlSink(postgresql.connect, "postgresql", "texts", ("words",), (), 1)
    with pytest.raises(psycopg.DataError, match="NUL"):
        sink.create_committer("other", 0).commit(FIRST, [{"words": "a\0b"}])


def test_row_larger_than_the_database_accepts_fails(mariadb: DatabaseServer) -> None:
    data = b"x" * 17_000_000
    mariadb.query("CREATE OR REPLACE TABLE blobs (data LONGBLOB)")
    sink = SqlSink(mariadb.connect, "mariadb", "blobs", ("data",), (), 1)
    with pytest.raises(ValueError, match="max_allowed_packet"):
        sink.create_committer("blobs", 0).commit(FIRST, [{"data": b""}, {"data": data}])
    rows = [{"data": data[:5_000_000]}] * 4
    assert sink.create_committer("blobs", 0).commit(CommitId("blobs", 0, 1, b"1"), rows) == 4


def test_sink_waits_while_the_database_server_is_read_only(postgresql: DatabaseServer) -> None:
    options = {"options": "-c default_transaction_read_only=on"}
    with pytest.raises(SinkUnavailable, match="read-only"):
        create_committer(postgresql, connect=postgresql.connect_to(postgresql.port, **options))


def test_psycopg2_writes_and_reports_lost_connections(postgresql: DatabaseServer) -> None:
    postgresql.query("DROP TABLE IF EXISTS sales")
    postgresql.query("CREATE TABLE sales (id INTEGER PRIMARY KEY, price INTEGER)")

    def connect() -> Any:
        return psycopg2.connect(
            host="127.0.0.1", port=postgresql.port, user="postgres", dbname="shop"
        )

    place = ("psycopg2", 0)
    committer = create_committer(postgresql, place=place, connect=connect)
    commit_id = CommitId("psycopg2", 0, 1, b"1")
    assert committer.commit(commit_id, make_rows(1)) == 1
    postgresql.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND datname = 'shop'"
    )
    with pytest.raises(SinkUnavailable):
        committer.commit(CommitId("psycopg2", 0, 2, b"2"), make_rows(2))
    committer = create_committer(postgresql, place=place, connect=connect)
    assert committer.commit(CommitId("psycopg2", 0, 2, b"2"), make_rows(2)) == 1
    with pytest.raises(psycopg2.IntegrityError):
        committer.commit(CommitId("psycopg2", 0, 3, b"3"), make_rows(2))
