"""Tests that rows reach tables of Spark's catalog exactly once, with the properties from the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from beam_runner_planner.table_specs import TableTarget
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_urns import spark as urns
from beam_spark_io.schemas import convert_arrow_to_spark
from table_jobs import TableJob

from beam_spark_executor.spark.session import RunningSpark

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3], "day": ["mon", "tue", "tue"]})


@pytest.fixture
def database(spark: RunningSpark, tmp_path: Path) -> Iterator[str]:
    name = f"sales_{uuid.uuid4().hex}"
    spark.session.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'tables'}'")
    yield name
    spark.session.sql(f"DROP DATABASE {name} CASCADE")


def target(table: str, **more: Any) -> TableTarget:
    return TableTarget(table=table, **{"schema": convert_arrow_to_spark(ROWS.schema), **more})


def rows(spark: RunningSpark, table: str) -> list[tuple[int, str]]:
    frame = spark.session.table(table).orderBy("id").select("id", "day")
    return [tuple(row) for row in frame.collect()]


def refused(job: TableJob, to: TableTarget) -> str:
    reply = job.run(urns.STAGE, to.to_payload(), job.given(ROWS))
    assert isinstance(reply, BundleFailure) and reply.failure is not None, reply
    assert "\n" not in reply.failure.summary
    return reply.failure.summary


@pytest.mark.parametrize("more", [{}, {"partition_by": ("day",)}, {"format": "csv"}])
def test_catalog_table_is_created_appended_and_overwritten(
    job: TableJob, spark: RunningSpark, database: str, more: dict[str, Any]
) -> None:
    table = f"{database}.events"
    job.write(target(table, **more), ROWS.slice(0, 2))
    assert rows(spark, table) == [(1, "mon"), (2, "tue")]
    assert "already contains data" in refused(job, target(table, **more))
    job.write(target(table, mode="ignore"), ROWS)
    assert rows(spark, table) == [(1, "mon"), (2, "tue")]
    job.write(target(table, mode="append"), ROWS.slice(2))
    assert rows(spark, table) == [(1, "mon"), (2, "tue"), (3, "tue")]
    job.write(target(table, mode="overwrite"), ROWS.slice(1))
    assert rows(spark, table) == [(2, "tue"), (3, "tue")]
    described = dict(spark.session.sql(f"DESCRIBE DATABASE {database}").collect())
    files = Path(described["Location"].removeprefix("file:"))
    assert list(files.rglob("part-*"))
    assert not list(files.rglob("_beam-*"))


def test_catalog_table_matches_columns_by_name_and_retains_its_options(
    job: TableJob, spark: RunningSpark, database: str
) -> None:
    table = f"{database}.Events"
    options = "OPTIONS (header 'true', sep '|')"
    spark.session.sql(f"CREATE TABLE {table} (Day STRING, Id BIGINT) USING csv {options}")
    job.write(target(f"spark_catalog.{table}", mode="append"), ROWS)
    assert rows(spark, table) == [(1, "mon"), (2, "tue"), (3, "tue")]


def test_catalog_write_is_invisible_until_publication_even_after_interruption(
    job: TableJob, spark: RunningSpark, database: str
) -> None:
    to = target(f"{database}.events", partition_by=("day",))
    staged = job.done(urns.STAGE, to.to_payload(), job.given(ROWS.slice(0, 1), ROWS.slice(1)))
    assert not spark.session.catalog.tableExists(to.table)
    for attempt in (1, 2):
        job.done(urns.PUBLISH, to.to_payload(), staged, attempt=attempt)
        assert rows(spark, to.table) == [(1, "mon"), (2, "tue"), (3, "tue")]


def test_catalog_table_read_before_write_is_refreshed(
    job: TableJob, spark: RunningSpark, database: str
) -> None:
    table = f"{database}.events"
    job.write(target(table), ROWS.slice(0, 1))
    spark.session.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
    assert rows(spark, table) == [(1, "mon")]
    job.write(target(table, mode="append"), ROWS.slice(1))
    assert rows(spark, table) == [(1, "mon"), (2, "tue"), (3, "tue")]
    told = {row[0]: row[1] for row in spark.session.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert "1 rows" not in told.get("Statistics", "")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("TABLE {} (id BIGINT) USING parquet", "has the columns id, but the rows have id, day"),
        ("TABLE {} (id INT, day STRING) USING parquet", "has the type int in"),
        ("TABLE {} (id BIGINT, day VARCHAR(9)) USING parquet", "is varchar(9)"),
        ("VIEW {} AS SELECT 1 AS id, '' AS day", "is a view; expected a table"),
        (
            "TABLE {} USING jdbc OPTIONS (url 'jdbc:derby:memory:x;create=true', dbtable 'sysibm.sysdummy1')",
            "has the format jdbc",
        ),
        (
            "TABLE {} (id BIGINT, day STRING) USING orc CLUSTERED BY (id) INTO 2 BUCKETS",
            "has buckets",
        ),
    ],
)
def test_catalog_table_of_unsupported_format_is_refused(
    job: TableJob, spark: RunningSpark, database: str, made: str, said: str
) -> None:
    spark.session.sql(f"CREATE {made.format(f'{database}.events')}")
    assert said in refused(job, target(f"{database}.events", mode="append"))


def test_catalog_table_with_other_properties_is_refused(
    job: TableJob, spark: RunningSpark, database: str, tmp_path: Path
) -> None:
    table = f"{database}.events"
    job.write(target(table, partition_by=("day",)), ROWS)
    assert "already exists with the format parquet" in refused(
        job, target(table, format="csv", mode="append")
    )
    dealt = target(table, mode="append", partition_by=("id",))
    assert "is partitioned by day" in refused(job, dealt)
    add = f"ALTER TABLE {table} ADD PARTITION (day = 'sun') LOCATION '{tmp_path / 'elsewhere'}'"
    spark.session.sql(add)
    assert "outside of the table's folder" in refused(job, target(table, mode="append"))


def test_files_at_location_of_new_table_are_reported(
    job: TableJob, database: str, tmp_path: Path
) -> None:
    (tmp_path / "tables" / "events").mkdir(parents=True)
    (tmp_path / "tables" / "events" / "mine").write_text("")
    assert "doesn't exist, but its folder" in refused(job, target(f"{database}.events"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.such.events", "the catalog no must exist"),
        ("no_such_database.events", "no_such_database"),
        ("a b", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_invalid_table_name_is_reported(job: TableJob, name: str, said: str) -> None:
    assert said in refused(job, target(name))
