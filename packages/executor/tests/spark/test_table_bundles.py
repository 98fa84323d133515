from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from beam_runner_data.rows.columns import decode_batch
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_planner.table_specs import TableSource, TableTarget
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_urns import spark as urns
from beam_spark_io.schemas import convert_arrow_to_spark
from table_jobs import TableJob

from beam_spark_executor.spark.session import RunningSpark

pytestmark = pytest.mark.spark

BUFFER = BufferPlan("out", BufferKind.STORED)
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "day": [datetime.date(2026, 1, day) for day in (1, 2, 2)],
        "text": ["a", None, "ü"],
    }
)
DATABASE = {"url": "jdbc:nosuch://localhost/x", "dbtable": "t"}


def read(job: TableJob, source: TableSource) -> list[dict[str, Any]]:
    outputs = job.done(urns.READ, source.to_payload())
    return [row for element in job.elements(outputs) for row in decode_batch(element).to_pylist()]


def target(path: Path, **more: Any) -> TableTarget:
    return TableTarget("parquet", str(path), schema=convert_arrow_to_spark(ROWS.schema), **more)


def written(path: Path) -> list[dict[str, Any]]:
    return sorted(pa.parquet.read_table(path).to_pylist(), key=lambda row: row["id"])


def test_table_read_returns_selected_columns_and_rows(job: TableJob, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, tmp_path / "in.parquet")
    path = str(tmp_path / "in.parquet")
    assert read(job, TableSource("parquet", path=path)) == ROWS.to_pylist()
    source = TableSource("parquet", path=path, columns=("text", "id"), where="id > 1")
    assert read(job, source) == [{"text": None, "id": 2}, {"text": "ü", "id": 3}]


def test_table_query_without_rows_returns_no_rows(job: TableJob) -> None:
    assert read(job, TableSource(sql="SELECT 1 AS one WHERE 1 = 0")) == []


def test_table_read_counts_rows(job: TableJob) -> None:
    reply = job.run(urns.READ, TableSource(sql="SELECT 1 AS one").to_payload())
    (metric,) = reply.metrics
    assert (metric.labels, metric.payload) == ((("PCOLLECTION", "rows"),), b"\x01")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (TableSource("parquet", path="/no/such"), "PATH_NOT_FOUND"),
        (TableSource(sql="SELEC 1"), "PARSE_SYNTAX_ERROR"),
        (TableSource(sql="SET spark.sql.ansi.enabled=false"), "PARSE_SYNTAX_ERROR"),
        (TableSource(sql="DROP TABLE mine"), "PARSE_SYNTAX_ERROR"),
        (TableSource(sql="SELECT 1 AS one", columns=("two",)), "the column 'two' is missing from"),
        (TableSource("jdbc", options=DATABASE), "Spark has no JDBC driver"),
        (TableSource("jdbc", options={**DATABASE, "driver": "a.Driver"}), "ClassNotFoundException"),
    ],
)
def test_table_source_error_names_transform(job: TableJob, source: TableSource, said: str) -> None:
    reply = job.run(urns.READ, source.to_payload())
    assert isinstance(reply, BundleFailure) and reply.failure is not None
    assert reply.failure.transform == "Tables/It"
    assert said in reply.failure.summary
    assert "\tat " not in reply.failure.text


CALLS = "('java.lang.System', 'setProperty', 'beam.test.called', 'yes')"


@pytest.mark.parametrize(
    "name",
    [
        "reflect/* it */",
        "IDENTIFIER('ref' || 'lect')",
        "IDENTIFIER('try_reflect')",
        "system.builtin.`java_method`/**/",
        "/*+ a hint */ `Reflect`-- (\n",
    ],
)
@pytest.mark.parametrize("where", [True, False])
def test_table_query_that_calls_java_code_is_refused(
    job: TableJob, spark: RunningSpark, name: str, where: bool
) -> None:
    source = TableSource(sql=f"SELECT {name}{CALLS} AS it")
    if where:
        source = TableSource(
            sql="SELECT 1 AS it", where=f"{name.removeprefix('/*+ a hint */')}{CALLS} = ''"
        )
    reply = job.run(urns.READ, source.to_payload())
    assert isinstance(reply, BundleFailure) and reply.failure is not None
    java: Any = spark.context._jvm
    assert java.java.lang.System.getProperty("beam.test.called") is None
    # The session of the program is unchanged.
    assert spark.session.sql("SELECT reflect('java.lang.Math', 'abs', -3)").first() is not None


def test_table_query_error_is_reported_by_job_and_not_logged_by_pyspark(
    job: TableJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    loggers = pytest.importorskip("pyspark.logger").PySparkLogger
    logger = loggers.getLogger("SQLQueryContextLogger")
    logged: list[Any] = []
    monkeypatch.setattr(logger, "handle", logged.append)
    reply = job.run(urns.READ, TableSource(sql="SELECT no_such_function() AS one").to_payload())
    assert isinstance(reply, BundleFailure) and reply.failure is not None
    assert "no_such_function" in reply.failure.summary
    assert logged == []


def test_table_rows_are_partitioned_into_folders(job: TableJob, tmp_path: Path) -> None:
    job.write(target(tmp_path / "out", partition_by=("day",)), ROWS.slice(0, 1), ROWS.slice(1))
    assert [row["id"] for row in written(tmp_path / "out")] == [1, 2, 3]
    folders = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert folders == ["_SUCCESS", "day=2026-01-01", "day=2026-01-02"]


def test_table_files_are_invisible_until_publication(
    job: TableJob, spark: RunningSpark, tmp_path: Path
) -> None:
    to = target(tmp_path / "out")
    job.done(urns.STAGE, to.to_payload(), job.given(ROWS))
    frame = spark.session.read.schema("id LONG").parquet(str(tmp_path / "out"))
    assert frame.count() == 0


@pytest.mark.parametrize("parent", ["{folder}/file", "/proc/foo"])
def test_table_write_to_folder_that_cannot_be_created_fails_permanently(
    parent: str, job: TableJob, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    parent = parent.format(folder=tmp_path)
    blocked = target(Path(parent, "out"))
    broke = job.run(urns.STAGE, blocked.to_payload(), job.given(ROWS))
    assert isinstance(broke, BundleFailure) and broke.failure is not None
    assert broke.kind is FailureKind.PERMANENT
    assert f"can't create files in file:{parent}" in broke.failure.summary
    assert "\n" not in broke.failure.summary


def test_existing_table_files_stop_write_in_error_mode(job: TableJob, tmp_path: Path) -> None:
    job.write(target(tmp_path / "out"), ROWS)
    broke = job.run(urns.STAGE, target(tmp_path / "out").to_payload(), job.given(ROWS))
    assert broke.failure is not None and "already contains data" in broke.failure.summary
    job.write(target(tmp_path / "out", mode="ignore"), ROWS)
    assert written(tmp_path / "out") == ROWS.to_pylist()
    job.write(target(tmp_path / "out", mode="append"), ROWS)
    assert [row["id"] for row in written(tmp_path / "out")] == [1, 1, 2, 2, 3, 3]
    job.write(target(tmp_path / "out", mode="overwrite"), ROWS.slice(1))
    assert [row["id"] for row in written(tmp_path / "out")] == [2, 3]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_interrupted_publication_of_table_files_is_repeated(
    job: TableJob, tmp_path: Path, mode: str
) -> None:
    job.write(target(tmp_path / "out"), ROWS.slice(0, 1)) if mode != "error" else None
    to = target(tmp_path / "out", mode=mode)
    staged = job.done(urns.STAGE, to.to_payload(), job.given(ROWS.slice(1, 1), ROWS.slice(2)))
    job.done(urns.PUBLISH, to.to_payload(), staged)
    before = written(tmp_path / "out")
    # No server received the reply.
    job.done(urns.PUBLISH, to.to_payload(), staged, attempt=2)
    assert written(tmp_path / "out") == before
    assert [row["id"] for row in before] == ([1, 2, 3] if mode == "append" else [2, 3])


def test_removed_staged_files_of_table_write_are_reported(job: TableJob, tmp_path: Path) -> None:
    to = target(tmp_path / "out")
    staged = job.done(urns.STAGE, to.to_payload(), job.given(ROWS))
    for path in (tmp_path / "out").rglob("*.parquet"):
        path.unlink()
    reply = job.run(urns.PUBLISH, to.to_payload(), staged)
    assert isinstance(reply, BundleFailure)
    assert "another program has removed it" in reply.reason


def test_table_write_without_rows_creates_empty_table(job: TableJob, tmp_path: Path) -> None:
    job.write(target(tmp_path / "out"), ROWS.slice(0, 0))
    assert written(tmp_path / "out") == []
