"""SQL dialects of `WriteToSql`: statements, sessions, and errors of databases that don't answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import attrs

MARKS = "beam_exactly_once"
"""Table with the last commit of each run and shard."""
_SQLITE_AWAY = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
    }
)
_POSTGRESQL_AWAY = ("08", "25006", "25P03", "40", "53", "57", "55P03")
"""SQLSTATE classes of errors for which a later attempt can succeed: connections, read-only servers,
ended transactions, rollbacks, resources, operator intervention, and locks.
"""
_MARIADB_AWAY = frozenset(
    {
        *(1020, 1205, 1213),  # changed rows, lock waits, deadlocks
        *(1021, 1040, 1041, 1203, 1226),  # disk, memory, and numbers of connections
        *(
            1053,
            1290,
            1317,
            1836,
            1927,
            4031,
        ),  # shutdown, read-only server, ended statement or session
        *(1158, 1159, 1160, 1161),  # network reads and writes
        *(2002, 2003, 2006, 2013, 2055),  # connections
    }
)
"""MariaDB error numbers for which a later attempt can succeed."""
_LOST_CONNECTION = frozenset({"OperationalError", "InterfaceError"})
"""DB-API exception classes of errors without a code, such as a lost connection."""
_IDLE_SECONDS = 60
"""Maximum time for which a transaction waits for its client. Until then, a suspended process locks
the row of its commit mark.
"""


@attrs.frozen
class SqlDialect:
    """SQL dialect of one kind of database.

    Attributes:
        placeholder: the placeholder of a value in the driver's statements.
        quote: the character around names.
        insert_if_absent: start and end of an INSERT that ignores a row whose key exists.
        is_unavailable: returns whether an error says that the database doesn't answer now.
        table_options: text after the columns of a new table, for tables with transactions.
        limit_idle_transactions: statement that limits how long a transaction waits for its client,
            unless a limit is set; empty if the database has no such limit.
        find_engine: query for the engine of a table, if that engine has no transactions; empty if all
            tables have transactions.
        find_statement_limit: query for the maximum size of a statement, bytes; empty without a limit.
    """

    placeholder: str
    quote: str
    insert_if_absent: tuple[str, str]
    is_unavailable: Callable[[Exception], bool]
    table_options: str = ""
    limit_idle_transactions: str = ""
    find_engine: str = ""
    find_statement_limit: str = ""

    def quote_name(self, name: str) -> str:
        """Returns a quoted name; a dot separates the names of a schema and a table."""
        if self.placeholder == "%s":  # the drivers replace other uses of the sign, too
            name = name.replace("%", "%%")
        parts = (part.replace(self.quote, 2 * self.quote) for part in name.split("."))
        return ".".join(f"{self.quote}{part}{self.quote}" for part in parts)

    def create_marks(self) -> str:
        """Returns the statement that creates the table of commit marks (records of the last
        commits).
        """
        return (
            f"CREATE TABLE IF NOT EXISTS {MARKS} (run VARCHAR(64) NOT NULL, shard INTEGER NOT NULL,"
            " number BIGINT NOT NULL, digest VARCHAR(64) NOT NULL, PRIMARY KEY (run, shard))"
            f"{self.table_options}"
        )

    def check_engine(self, cursor: Any, table: str) -> None:
        """Checks that a table has transactions.

        Raises:
            ValueError: The engine of the table has no transactions.
        """
        if not self.find_engine:
            return
        schema, _, name = table.rpartition(".")
        cursor.execute(self.find_engine, (schema or None, name))
        if found := cursor.fetchone():
            raise ValueError(
                f"the table {table} has the engine {found[0]}, which has no transactions: run"
                f" ALTER TABLE {table} ENGINE = InnoDB"
            )

    def insert(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        """Returns the statement for a row, which replaces a row with the same key if a key is given."""
        names = ", ".join(map(self.quote_name, columns))
        values = ", ".join([self.placeholder] * len(columns))
        statement = f"INSERT INTO {self.quote_name(table)} ({names}) VALUES ({values})"
        if not key:
            return statement
        rest = [column for column in columns if column not in key]
        return f"{statement} {self._describe_replacement(key, rest)}"

    def make_insert_mark_statement(self) -> str:
        """Returns the statement that inserts a commit mark with the number 0, unless the mark exists."""
        start, end = self.insert_if_absent
        values = ", ".join([self.placeholder] * 2)
        return f"{start} INTO {MARKS} (run, shard, number, digest) VALUES ({values}, 0, '') {end}"

    def read_statement_limit(self, cursor: Any) -> int | None:
        """Returns the maximum size of a statement, bytes; None if the database has no limit."""
        if not self.find_statement_limit:
            return None
        cursor.execute(self.find_statement_limit)
        return int(cursor.fetchone()[0])

    def _describe_replacement(self, key: Sequence[str], rest: Sequence[str]) -> str:
        if self is MARIADB:
            names = [self.quote_name(column) for column in rest or key]
            return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{n} = VALUES({n})" for n in names)
        target = ", ".join(map(self.quote_name, key))
        if not rest:
            return f"ON CONFLICT ({target}) DO NOTHING"
        changes = ", ".join(f"{n} = excluded.{n}" for n in map(self.quote_name, rest))
        return f"ON CONFLICT ({target}) DO UPDATE SET {changes}"


def _is_sqlite_unavailable(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_AWAY


def _is_postgresql_unavailable(error: Exception) -> bool:
    # psycopg 3 and psycopg2 have different names for the code.
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""
    return state.startswith(_POSTGRESQL_AWAY) if state else _is_connection_lost(error)


def _is_mariadb_unavailable(error: Exception) -> bool:
    # Some drivers store the error number only in the exception's arguments.
    number = getattr(error, "errno", None) or next(iter(error.args), None)
    has_number = isinstance(number, int) and number != 0
    return number in _MARIADB_AWAY if has_number else _is_connection_lost(error)


def _is_connection_lost(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(names & _LOST_CONNECTION)


SQLITE = SqlDialect("?", '"', ("INSERT OR IGNORE", ""), _is_sqlite_unavailable)
POSTGRESQL = SqlDialect(
    "%s",
    '"',
    ("INSERT", "ON CONFLICT DO NOTHING"),
    _is_postgresql_unavailable,
    limit_idle_transactions=(
        f"SELECT set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS}s', false)"
        " WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
    ),
)
MARIADB = SqlDialect(
    "%s",
    "`",
    ("INSERT IGNORE", ""),
    _is_mariadb_unavailable,
    table_options=" ENGINE = InnoDB",
    # MySQL reads the part with M! as a comment, because MySQL has no such limit.
    limit_idle_transactions=(
        "SET @beam = 0 /*M!100300 , SESSION idle_transaction_timeout ="
        f" IF(@@idle_transaction_timeout = 0, {_IDLE_SECONDS}, @@idle_transaction_timeout) */"
    ),
    find_engine=(
        "SELECT e.engine FROM information_schema.tables t"
        " JOIN information_schema.engines e ON e.engine = t.engine"
        " WHERE t.table_schema = COALESCE(%s, DATABASE()) AND t.table_name = %s"
        " AND e.transactions = 'NO'"
    ),
    find_statement_limit="SELECT @@max_allowed_packet",
)
DIALECTS = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mariadb": MARIADB}
