"""Bundles that read or write a Spark table. Spark runs them as a DataFrame job, and not on a lane.

Elements between Spark and other stages are batches of rows in Arrow's format. Therefore, this
module doesn't need a coder for rows.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from apache_beam.coders.coders import VarIntCoder
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.columns import decode_batch
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.events import BundleDone, FailureKind, Output
from beam_runner_model.buffers import BufferPlan
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_planner.plan import JobPlan, TablePlan
from beam_runner_planner.table_specs import InvalidTableSpec, StreamSource, TableSource, TableTarget
from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.bundles.table_rows import ElementsWriter, read_elements_of_inputs
from beam_runner_runtime.channel.attempts import BundleFailure, UserFailure
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_urns import metrics as metric_urns
from beam_runner_urns import spark as urns
from beam_spark_io.spark import catalog_tables, databases, publishing
from beam_spark_io.spark.frames import parse_struct_type, read_frame
from beam_spark_io.spark.guarded_session import create_guarded_session
from beam_spark_io.spark.kafka import explain_kafka_failures
from beam_spark_io.spark.publishing import (
    StagedTableFiles,
    discard_staged_files,
    list_staged_files,
    publish_files,
)
from beam_spark_io.spark.reasons import find_failure_reason
from pyspark import TaskContext
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)

from beam_spark_executor.spark.micro_batches import MicroBatchReader
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.reading import TableData, write_rows
from beam_spark_executor.spark.table_errors import explain_permanent_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTS_PER_CORE = 3
_MISTAKES = (
    InvalidTableSpec,
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
"""Errors about the table itself, which a retry can't fix."""
_PACKAGES = {"kafka": "spark-sql-kafka-0-10", "avro": "spark-avro"}
"""Maven packages for table formats that Spark doesn't include."""
_LACKING = re.compile(rf"Failed to find data source: ({'|'.join(_PACKAGES)})\b", re.IGNORECASE)
_NO_FORMAT = "DATA_SOURCE_NOT_FOUND"
"""Spark's error class for an unknown table format, for which PySpark has no exception class."""


class JobStopped(Exception):
    """Raised in a bundle if its job has ended."""


class TableBundleRunner:
    """Runs the bundles of one job that read or write Spark tables.

    Args:
        session: the Spark session with readers, writers, catalog and settings.
        data: the location of the job's files.
    """

    def __init__(
        self,
        session: SparkSession,
        pools: WorkerPools,
        slot: WorkerSlot,
        plan: JobPlan,
        data: TableData,
    ) -> None:
        self._session = create_guarded_session(session)
        self._given = session
        self._pools = pools
        self._slot = slot
        self._plan = plan
        self._data = data
        self._stopped = threading.Event()
        self._streams = MicroBatchReader(self._session, pools, slot, data, self._raise_if_stopped)

    def stop(self) -> None:
        """Ends running bundles, even between two Spark jobs, and stops writes to databases. Thread-safe."""
        self._stopped.set()

    def _raise_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise JobStopped("the job has ended")

    def run(self, order: RunBundle, title: str) -> BundleReply | BundleFailure:
        """Runs a bundle in the calling thread, which must be a job thread; never raises.

        The bundle also ends when Spark cancels the job's group.

        Args:
            order: a bundle of a stage that has a table.
            title: the name on Spark's pages.
        """
        stage = self._plan.stages[order.bundle.stage]
        table = stage.table
        assert table is not None
        buffers = [self._plan.buffers[buffer] for buffer in stage.outputs.values()]
        attempt = order.attempt
        try:
            self._pools.set_spark_job_group(self._slot, f"beam-{self._data.job_id}", title)
            done = self._run_operation(order, table, buffers, title)
        except Exception as error:
            broken = describe_failed_attempt(attempt, error, Path(self._data.folder))
            if broken.kind is FailureKind.UNAVAILABLE:
                return broken
            text = _remove_stack_trace(error)
            explained = explain_permanent_error(text)
            if explained or isinstance(error, _MISTAKES) or _NO_FORMAT in text:
                said, _, more = (explained or self._add_package_advice(text)).partition("\n")
                failure = UserFailure(stage.spec.name, said, more)
                return BundleFailure(attempt, failure, kind=FailureKind.PERMANENT)
            return BundleFailure(attempt, None, f"'{stage.spec.name}': {text}")
        count = sum(output.data.facts.count for output in done.outputs) // max(1, len(buffers))
        return BundleReply(done, None, (_count_elements(table.pcollection, count),))

    def _run_operation(
        self, order: RunBundle, table: TablePlan, buffers: Sequence[BufferPlan], title: str
    ) -> BundleDone:
        if table.urn == urns.READ_STREAM:
            source = StreamSource.from_payload(table.payload)
            return self._streams.read_batch(order, source, buffers, title)
        outputs = self._run_table_operation(order, table, buffers)
        return BundleDone(order.bundle.number, order.bundle.attempt, outputs)

    def _run_table_operation(
        self, order: RunBundle, table: TablePlan, buffers: Sequence[BufferPlan]
    ) -> tuple[Output, ...]:
        if table.urn == urns.READ:
            return self._read_table(order, TableSource.from_payload(table.payload), buffers)
        target = TableTarget.from_payload(table.payload)
        with closing(FileCache.open(self._data.store)) as files:
            if table.urn == urns.STAGE:
                said = self._stage_rows(order, target).to_bytes()
            else:
                (element,) = read_elements_of_inputs(files, order.bundle.inputs)
                self._publish_rows(target, StagedTableFiles.from_bytes(element))
                said = target.name.encode()
            return ElementsWriter(files, order.name, buffers, 1).write((said,))

    def _read_table(
        self, order: RunBundle, source: TableSource, buffers: Sequence[BufferPlan]
    ) -> tuple[Output, ...]:
        with explain_kafka_failures(source):
            frame = read_frame(self._session, source)
            return write_rows(frame, self._pools, self._slot, order, self._data, buffers).outputs

    def _stage_rows(self, order: RunBundle, target: TableTarget) -> StagedTableFiles:
        files = catalog_tables.find_table_files(self._session, target) if target.table else None
        there = files is not None if target.table else self._target_exists(target)
        if there and target.mode == "error":
            raise InvalidTableSpec(
                f"{target.location} already contains data: set mode='overwrite', 'append'"
                " or 'ignore', or choose another target"
            )
        if there and target.mode == "ignore":
            return StagedTableFiles("", ())
        writer = f"{self._data.job_id}-{order.bundle.stage}"
        if target.is_database:
            table = databases.make_staging_table_name(target, f"{writer}/{order.name}")
            databases.check_writable(
                self._session, target, parse_struct_type(target.schema).fieldNames()
            )
            databases.stage_rows(
                self._session, target, table, self._list_rows_to_write(order, target)
            )
            return StagedTableFiles(table, ())
        rows = self._list_rows_to_write(order, target)
        if files is not None:
            rows = catalog_tables.match_table_columns(self._session, target, rows)
        elif target.table:
            files = catalog_tables.plan_new_table_files(self._session, target)
        return self._stage_files(rows, files or target, f"{writer}/{order.name}")

    def _target_exists(self, target: TableTarget) -> bool:
        exists = databases.table_exists if target.is_database else publishing.has_files
        return exists(self._session, target)

    def _stage_files(self, rows: DataFrame, target: TableTarget, writer: str) -> StagedTableFiles:
        folder = target.staging_folder(writer)
        written = rows.write.format(target.format).options(**target.options)
        try:
            written.partitionBy(*target.partition_by).save(folder)
        except BaseException:
            discard_staged_files(self._session, folder)
            raise
        return StagedTableFiles(folder, list_staged_files(self._session, folder))

    def _publish_rows(self, target: TableTarget, staged: StagedTableFiles) -> None:
        if not staged.folder:
            return
        if target.is_database:
            schema = parse_struct_type(target.schema)
            databases.publish_rows(
                self._session, target, schema, staged.folder, self._raise_if_stopped
            )
        elif target.table:
            files = catalog_tables.create_table_files(self._session, target)
            publish_files(self._session, files, staged)
            # Refresh the table: the program that owns the session can have cached its data.
            catalog_tables.refresh_catalog(self._given, target, files)
        else:
            publish_files(self._session, target, staged)

    def _list_rows_to_write(self, order: RunBundle, target: TableTarget) -> DataFrame:
        """Returns the rows to write, as a DataFrame. For a database, adds columns that identify the attempt."""
        schema = parse_struct_type(target.schema)
        if target.is_database:
            schema = schema.add(databases.SHARE, "long").add(databases.ATTEMPT, "long")
        most = self._session.sparkContext.defaultParallelism * _PARTS_PER_CORE
        shares = _split_inputs(order.bundle.inputs, most)
        read = partial(_read_input_share, self._data, shares, target.is_database)
        numbers = self._session.range(0, len(shares), 1, len(shares))
        return self._pools.map_in_arrow(numbers, read, schema, self._slot)

    def _add_package_advice(self, text: str) -> str:
        """Returns the error text. If a table format is missing, adds the flag that makes the server
        load the format's package.
        """
        lacking = _LACKING.search(text)
        if lacking is None:
            return text
        scala = self._given.sparkContext._jvm.scala.util.Properties.versionNumberString()
        package = (
            f"{_PACKAGES[lacking[1].lower()]}_{scala.rpartition('.')[0]}:{self._given.version}"
        )
        return (
            f"{lacking[0]}: start the server with"
            f" --spark-conf=spark.jars.packages=org.apache.spark:{package}"
        )


def _read_input_share(
    data: TableData,
    shares: Sequence[Sequence[Input]],
    told_apart: bool,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Reads one partition of the rows to write, inside a Spark task. If `told_apart` is true, adds
    the partition number and the attempt number of the task to each row.
    """
    with closing(FileCache.open(data.store)) as files:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in map(decode_batch, read_elements_of_inputs(files, shares[number])):
                    yield _add_attempt_columns(rows, number) if told_apart else rows


def _add_attempt_columns(rows: pa.RecordBatch, share: int) -> pa.RecordBatch:
    task = TaskContext.get()
    assert task is not None
    attempt = task.taskAttemptId()
    for name, value in ((databases.SHARE, share), (databases.ATTEMPT, attempt)):
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.int64()))
    return rows


def _split_inputs(inputs: Sequence[Input], most: int) -> tuple[tuple[Input, ...], ...]:
    """Returns the inputs in order, in at most `most` groups of about the same size."""
    aim = sum(one.data.facts.size for one in inputs) / most
    shares: list[list[Input]] = [[]]
    size = 0
    for one in inputs:
        if size >= aim and shares[-1]:
            shares.append([])
            size = 0
        shares[-1].append(one)
        size += one.data.facts.size
    return tuple(map(tuple, shares))


def _count_elements(pcollection_id: str, count: int) -> MonitoringInfo:
    labels = ((metric_urns.LABEL_PCOLLECTION, pcollection_id),)
    payload = VarIntCoder().encode(count)
    return MonitoringInfo(metric_urns.ELEMENT_COUNT, metric_urns.SUM_INT64_TYPE, labels, payload)


def _remove_stack_trace(error: Exception) -> str:
    """Returns the text of an error, without the stack trace that Java adds."""
    if getattr(error, "java_exception", None) is not None:
        return find_failure_reason(error)
    text = str(error).split("\n\tat ")[0].split("\nJVM stacktrace")[0].strip()
    return text if isinstance(error, InvalidTableSpec) else f"{type(error).__name__}: {text}"
