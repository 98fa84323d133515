"""Tests that rows reach a database table exactly once across retries. The database is Derby, which is part of Spark."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pyarrow as pa
import pytest
from beam_runner_planner.table_specs import TableTarget
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_urns import spark as urns
from beam_spark_io.schemas import convert_arrow_to_spark
from beam_spark_io.spark import databases
from beam_spark_io.spark.databases import WRITES
from table_jobs import TableJob

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", None, "ü"]})
_NUMBERS = itertools.count()


@attrs.frozen
class Database:
    """An in-memory database.

    Attributes:
        url: JDBC URL of the database.
    """

    job: TableJob
    url: str

    def target(self, mode: str = "append", **options: Any) -> TableTarget:
        """Returns the specification of the table `words`."""
        told = {"url": self.url, "dbtable": "words", **options}
        return TableTarget(
            "jdbc", mode=mode, options=told, schema=convert_arrow_to_spark(ROWS.schema)
        )

    def run(self, *statements: str) -> None:
        """Runs SQL statements."""
        java: Any = self.job.session.sparkContext._jvm
        connection = java.java.sql.DriverManager.getConnection(self.url)
        for text in statements:
            connection.createStatement().executeUpdate(text)
        connection.close()

    def rows(self, table: str = "words") -> list[tuple[Any, ...]]:
        """Returns the rows of a table."""
        frame = self.job.session.read.format("jdbc").options(url=self.url, dbtable=table).load()
        return sorted(map(tuple, frame.collect()), key=str)

    def tables(self) -> set[str]:
        """Returns the names of all tables except system tables."""
        names = "(SELECT tablename FROM sys.systables WHERE tabletype = 'T') t"
        return {str(name).lower() for (name,) in self.rows(names)}


@pytest.fixture
def database(job: TableJob) -> Database:
    name = f"memory:words{next(_NUMBERS)}"
    return Database(job, f"jdbc:derby:{name};create=true")


ALL = [(1, "a"), (2, None), (3, "ü")]


def test_database_write_leaves_rows_and_no_helper_table(job: TableJob, database: Database) -> None:
    job.write(database.target(), ROWS.slice(0, 1), ROWS.slice(1))
    assert database.rows() == ALL
    assert database.tables() == {"words", WRITES}


def test_database_rows_are_invisible_until_publication(job: TableJob, database: Database) -> None:
    database.run("CREATE TABLE words (id BIGINT, text VARCHAR(9))")
    job.done(urns.STAGE, database.target().to_payload(), job.given(ROWS))
    assert database.rows() == []


def test_database_publication_with_unknown_outcome_is_not_repeated(
    job: TableJob, database: Database
) -> None:
    to = database.target().to_payload()
    staged = job.done(urns.STAGE, to, job.given(ROWS))
    job.done(urns.PUBLISH, to, staged)
    job.done(urns.PUBLISH, to, staged, attempt=2)
    assert database.rows() == ALL


def test_suspended_database_publication_that_continues_writes_no_rows(
    job: TableJob, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = database.target().to_payload()
    staged = job.done(urns.STAGE, to, job.given(ROWS))
    copy = databases._make_copy_statement

    def continue_after_other(*args: Any) -> str:
        statement = copy(*args)
        monkeypatch.setattr(databases, "_make_copy_statement", copy)
        job.done(urns.PUBLISH, to, staged, attempt=2)
        assert database.rows() == ALL
        return statement

    monkeypatch.setattr(databases, "_make_copy_statement", continue_after_other)
    job.done(urns.PUBLISH, to, staged)
    assert database.rows() == ALL


def test_database_task_killed_after_commit_counts_once(job: TableJob, database: Database) -> None:
    to = database.target().to_payload()
    staged = job.done(urns.STAGE, to, job.given(ROWS))
    (table,) = database.tables()
    # Spark repeats a task in this way: another attempt writes the same rows of the same partition.
    again = f'SELECT "id", "text", "beam_share", "beam_attempt" + 1 FROM {table}'
    database.run(f"INSERT INTO {table} {again}")
    assert len(database.rows(table)) == 6
    job.done(urns.PUBLISH, to, staged)
    assert database.rows() == ALL


def test_database_write_to_existing_table_follows_its_write_mode(
    job: TableJob, database: Database
) -> None:
    job.write(database.target("error"), ROWS)
    broke = job.run(urns.STAGE, database.target("error").to_payload(), job.given(ROWS))
    assert "words already contains data" in broke.failure.summary
    job.write(database.target("ignore"), ROWS, attempt=2)
    assert database.rows() == ALL
    job.write(database.target("append"), ROWS.slice(2), attempt=3)
    assert database.rows() == [*ALL, (3, "ü")]
    job.write(database.target("overwrite"), ROWS.slice(1), attempt=4)
    assert database.rows() == ALL[1:]


def test_database_columns_match_in_any_case_and_order(job: TableJob, database: Database) -> None:
    database.run("CREATE TABLE words (text VARCHAR(9), id BIGINT, more INT)")
    job.write(database.target(), ROWS)
    assert database.rows() == sorted(((text, i, None) for i, text in ALL), key=str)


def test_missing_database_column_is_reported_before_write(
    job: TableJob, database: Database
) -> None:
    database.run("CREATE TABLE words (id BIGINT)")
    broke = job.run(urns.STAGE, database.target().to_payload(), job.given(ROWS))
    assert "the column 'text' is missing from jdbc words, which has ID" in broke.failure.summary
    assert database.tables() == {"words"}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_database_error_is_reported_and_leaves_table_unchanged(
    job: TableJob, database: Database, mode: str
) -> None:
    database.run("CREATE TABLE words (id BIGINT CHECK (id < 3), text VARCHAR(9))")
    database.run("INSERT INTO words VALUES (0, 'old')")
    to = database.target(mode).to_payload()
    staged = job.done(urns.STAGE, to, job.given(ROWS))
    broke = job.run(urns.PUBLISH, to, staged)
    assert isinstance(broke, BundleFailure) and "check constraint" in broke.reason
    assert database.rows() == [(0, "old")]
    database.run("DELETE FROM words", "DROP TABLE words", "CREATE TABLE words (id INT, text CLOB)")
    job.done(urns.PUBLISH, to, staged, attempt=2)
    assert database.rows() == ALL


def test_database_write_without_rows_creates_empty_table(job: TableJob, database: Database) -> None:
    job.write(database.target(), ROWS.slice(0, 0))
    assert database.rows() == []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_database_write_of_finished_job_commits_no_rows(
    job: TableJob, database: Database, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write(database.target("error"), ROWS.slice(2))
    to = database.target(mode).to_payload()
    staged = job.done(urns.STAGE, to, job.given(ROWS), attempt=2)
    copy = databases._make_copy_statement

    def cancelled_by_then(*args: Any) -> str:
        job.stop()
        return copy(*args)

    with monkeypatch.context() as patched:
        patched.setattr(databases, "_make_copy_statement", cancelled_by_then)
        broke = job.run(urns.PUBLISH, to, staged, attempt=2)
    assert isinstance(broke, BundleFailure) and "the job has ended" in broke.reason
    assert database.rows() == [(3, "ü")]
    # No table is locked, and another server can continue.
    job.done(urns.PUBLISH, to, staged, attempt=3)
    assert database.rows() == ([*ALL, (3, "ü")] if mode == "append" else ALL)
