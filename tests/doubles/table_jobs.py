"""A job's bundles of tables, run as in a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.columns import encode_batch
from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.stages import HarnessStage, InputEdge, InputKind, JobContext
from beam_runner_planner.plan import JobPlan, StagePlan, TablePlan
from beam_runner_planner.table_specs import TableTarget
from beam_runner_runtime.bundles.table_rows import ElementsWriter, read_elements_of_inputs
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_urns import spark as urns
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.table_bundles import TableBundleRunner, TableData
from beam_spark_executor.spark.threads import start_job_thread
from pyspark.sql import SparkSession

BUFFER = BufferPlan("out", BufferKind.STORED)


@attrs.frozen
class TableJob:
    """Job with separate files."""

    session: SparkSession
    pools: WorkerPools
    slot: WorkerSlot
    data: TableData
    running: list[TableBundleRunner] = attrs.field(factory=list)

    def stop(self) -> None:
        """Stops running bundles, as a cancel does."""
        for bundles in self.running:
            bundles.stop()

    def run(self, urn: str, payload: bytes, inputs: Sequence[Output] = (), attempt: int = 1) -> Any:
        """Runs a bundle in a separate thread, as a server does; returns its outcome."""
        spec = HarnessStage("stage1", "Tables/It", "", b"", InputEdge("in", InputKind.ELEMENTS), ())
        table = TablePlan(urn, payload, "rows")
        stage = StagePlan(spec, True, None, b"", {"write": "out"}, (), table=table)
        plan = JobPlan(JobContext("job", "job", "{}", {}), {"stage1": stage}, {"out": BUFFER})
        bundle = Bundle(
            7, attempt, "stage1", None, tuple(Input(o.data) for o in inputs), (), 0, 0, 0, 0
        )
        bundles = TableBundleRunner(self.session, self.pools, self.slot, plan, self.data)
        order = RunBundle(bundle, f"1-7-{attempt}")
        self.running[:] = [bundles]
        replies: list[Any] = []
        run = lambda: replies.append(bundles.run(order, "It"))  # noqa: E731
        start_job_thread("table", run, replies.append).join(60)
        return replies[0]

    def done(self, *args: Any, **more: Any) -> tuple[Output, ...]:
        """Runs a bundle that must succeed; returns its outputs."""
        reply = self.run(*args, **more)
        assert isinstance(reply, BundleReply), reply
        return reply.done.outputs

    def elements(self, outputs: Sequence[Output]) -> list[bytes]:
        """Returns the output elements."""
        return list(
            read_elements_of_inputs(
                FileCache.open(self.data.store), [Input(output.data) for output in outputs]
            )
        )

    def given(self, *tables: pa.Table) -> tuple[Output, ...]:
        """Rows, as a stage puts them out."""
        batches = [batch for table in tables for batch in table.to_batches()]
        return ElementsWriter(FileCache.open(self.data.store), "1-1-1", [BUFFER], 1).write(
            map(encode_batch, batches)
        )

    def write(self, to: TableTarget, *tables: pa.Table, attempt: int = 1) -> None:
        """Writes rows to their end."""
        staged = self.done(urns.STAGE, to.to_payload(), self.given(*tables), attempt)
        self.done(urns.PUBLISH, to.to_payload(), staged)
