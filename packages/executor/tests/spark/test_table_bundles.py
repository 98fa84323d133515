from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from beam_runner_engine.scheduler import Bundle, Input, Output
from beam_runner_urns import spark as urns
from beam_runner_worker.records import InputEdge, InputKind, JobContext, StageSpec
from pyspark.sql import SparkSession

from beam_spark_executor.bundles.job_files import files_of
from beam_spark_executor.bundles.table_rows import ElementsWriter, elements_of
from beam_spark_executor.channel.attempts import BundleBroke
from beam_spark_executor.channel.messages import BundleReply, RunBundle
from beam_spark_executor.data.columns import from_bytes, to_bytes
from beam_spark_executor.io.schemas import spark_of_arrow
from beam_spark_executor.plan import BufferKind, BufferPlan, JobPlan, StagePlan, TablePlan
from beam_spark_executor.spark.pool import Slot, WorkerPools
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.table_bundles import TableBundles, TableData
from beam_spark_executor.spark.threads import job_thread
from beam_spark_executor.tables import TableSource, TableTarget

pytestmark = pytest.mark.spark

BUFFER = BufferPlan("out", BufferKind.STORED)
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "day": [datetime.date(2026, 1, day) for day in (1, 2, 2)],
        "text": ["a", None, "ü"],
    }
)


@attrs.frozen
class Job:
    """A job's bundles of tables, and its files."""

    session: SparkSession
    pools: WorkerPools
    slot: Slot
    data: TableData

    def run(self, urn: str, payload: bytes, inputs: Sequence[Output] = (), attempt: int = 1) -> Any:
        """What becomes of a bundle, in a thread of its own as in a server."""
        spec = StageSpec("stage1", "Tables/It", "", b"", InputEdge("in", InputKind.ELEMENTS), ())
        table = TablePlan(urn, payload, "rows")
        stage = StagePlan(spec, True, None, b"", {"write": "out"}, (), table=table)
        plan = JobPlan(JobContext("job", "job", "{}", {}), {"stage1": stage}, {"out": BUFFER})
        bundle = Bundle(
            7, attempt, "stage1", None, tuple(Input(o.data) for o in inputs), (), 0, 0, 0, 0
        )
        bundles = TableBundles(self.session, self.pools, self.slot, plan, self.data)
        order = RunBundle(bundle, f"1-7-{attempt}")
        replies: list[Any] = []
        thread = job_thread("table", lambda: replies.append(bundles.run(order, "It")))
        thread.start()
        thread.join(60)
        return replies[0]

    def done(self, *args: Any, **more: Any) -> tuple[Output, ...]:
        reply = self.run(*args, **more)
        assert isinstance(reply, BundleReply), reply
        return reply.done.outputs

    def elements(self, outputs: Sequence[Output]) -> list[bytes]:
        return list(elements_of(files_of(self.data), [Input(output.data) for output in outputs]))

    def given(self, *tables: pa.Table) -> tuple[Output, ...]:
        batches = [batch for table in tables for batch in table.to_batches()]
        return ElementsWriter(files_of(self.data), "1-1-1", [BUFFER], 1).write(
            map(to_bytes, batches)
        )


@pytest.fixture
def job(spark: RunningSpark, pools: WorkerPools, slot: Slot, tmp_path: Path) -> Job:
    data = TableData("job", str(tmp_path / "data"), None, durable=False, pieces=4)
    (tmp_path / "data").mkdir()
    return Job(spark.session, pools, slot, data)


def read(job: Job, source: TableSource) -> list[dict[str, Any]]:
    outputs = job.done(urns.READ, source.to_payload())
    return [row for element in job.elements(outputs) for row in from_bytes(element).to_pylist()]


def target(path: Path, **more: Any) -> TableTarget:
    return TableTarget("parquet", str(path), schema=spark_of_arrow(ROWS.schema), **more)


def write(job: Job, to: TableTarget, *tables: pa.Table) -> None:
    staged = job.done(urns.STAGE, to.to_payload(), job.given(*tables))
    job.done(urns.PUBLISH, to.to_payload(), staged)


def written(path: Path) -> list[dict[str, Any]]:
    return sorted(pa.parquet.read_table(path).to_pylist(), key=lambda row: row["id"])


def test_what_is_read_is_columns_and_rows_that_are_wanted(job: Job, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, tmp_path / "in.parquet")
    path = str(tmp_path / "in.parquet")
    assert read(job, TableSource("parquet", path=path)) == ROWS.to_pylist()
    source = TableSource("parquet", path=path, columns=("text", "id"), where="id > 1")
    assert read(job, source) == [{"text": None, "id": 2}, {"text": "ü", "id": 3}]


def test_a_query_of_nothing_gives_nothing(job: Job) -> None:
    assert read(job, TableSource(sql="SELECT 1 AS one WHERE 1 = 0")) == []


def test_what_is_read_is_counted(job: Job) -> None:
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
        (TableSource(sql="SELECT 1 AS one", columns=("two",)), "has no column 'two'; it has one"),
    ],
)
def test_what_is_wrong_with_a_source_is_told_by_the_transforms_name(
    job: Job, source: TableSource, said: str
) -> None:
    reply = job.run(urns.READ, source.to_payload())
    assert isinstance(reply, BundleBroke) and reply.failure is not None
    assert reply.failure.transform == "Tables/It"
    assert said in reply.failure.summary
    assert "\tat " not in reply.failure.text


def test_rows_are_written_by_folders(job: Job, tmp_path: Path) -> None:
    write(job, target(tmp_path / "out", partition_by=("day",)), ROWS.slice(0, 1), ROWS.slice(1))
    assert [row["id"] for row in written(tmp_path / "out")] == [1, 2, 3]
    folders = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert folders == ["_SUCCESS", "day=2026-01-01", "day=2026-01-02"]


def test_nothing_is_seen_before_it_is_published(
    job: Job, spark: RunningSpark, tmp_path: Path
) -> None:
    to = target(tmp_path / "out")
    job.done(urns.STAGE, to.to_payload(), job.given(ROWS))
    frame = spark.session.read.schema("id LONG").parquet(str(tmp_path / "out"))
    assert frame.count() == 0


def test_files_that_are_there_stop_a_write_that_minds(job: Job, tmp_path: Path) -> None:
    write(job, target(tmp_path / "out"), ROWS)
    broke = job.run(urns.STAGE, target(tmp_path / "out").to_payload(), job.given(ROWS))
    assert broke.failure is not None and "there is something at" in broke.failure.summary
    write(job, target(tmp_path / "out", mode="ignore"), ROWS)
    assert written(tmp_path / "out") == ROWS.to_pylist()
    write(job, target(tmp_path / "out", mode="append"), ROWS)
    assert [row["id"] for row in written(tmp_path / "out")] == [1, 1, 2, 2, 3, 3]
    write(job, target(tmp_path / "out", mode="overwrite"), ROWS.slice(1))
    assert [row["id"] for row in written(tmp_path / "out")] == [2, 3]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_a_publication_that_was_cut_off_is_made_again(job: Job, tmp_path: Path, mode: str) -> None:
    write(job, target(tmp_path / "out"), ROWS.slice(0, 1)) if mode != "error" else None
    to = target(tmp_path / "out", mode=mode)
    staged = job.done(urns.STAGE, to.to_payload(), job.given(ROWS.slice(1, 1), ROWS.slice(2)))
    job.done(urns.PUBLISH, to.to_payload(), staged)
    before = written(tmp_path / "out")
    # Nobody had heard of it.
    job.done(urns.PUBLISH, to.to_payload(), staged, attempt=2)
    assert written(tmp_path / "out") == before
    assert [row["id"] for row in before] == ([1, 2, 3] if mode == "append" else [2, 3])


def test_files_that_somebody_removed_are_told(job: Job, tmp_path: Path) -> None:
    to = target(tmp_path / "out")
    staged = job.done(urns.STAGE, to.to_payload(), job.given(ROWS))
    for path in (tmp_path / "out").rglob("*.parquet"):
        path.unlink()
    reply = job.run(urns.PUBLISH, to.to_payload(), staged)
    assert isinstance(reply, BundleBroke)
    assert "somebody has removed it" in reply.reason


def test_no_rows_are_a_table_without_any(job: Job, tmp_path: Path) -> None:
    write(job, target(tmp_path / "out"), ROWS.slice(0, 0))
    assert written(tmp_path / "out") == []
