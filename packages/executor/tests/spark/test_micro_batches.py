"""Tests of micro-batches: each resumes at the last committed position, and an uncommitted micro-batch is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows import written
from beam_runner_data.rows.columns import decode_batch
from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.events import BundleDone, Residual
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.stages import HarnessStage, InputEdge, InputKind, JobContext
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_planner.plan import JobPlan, StagePlan, TablePlan
from beam_runner_planner.table_specs import StreamSource
from beam_runner_runtime.bundles.table_rows import ElementsWriter, read_elements_of_inputs
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.channel.wire import decode_message, encode_message
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_urns import spark as urns
from beam_spark_io.schemas import convert_arrow_to_spark
from beam_spark_io.spark.stream_position import StreamPosition
from pyspark.sql import SparkSession

from beam_spark_executor.spark import micro_batches
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.reading import TableData, WrittenElements
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.table_bundles import TableBundleRunner
from beam_spark_executor.spark.threads import start_job_thread

pytestmark = pytest.mark.spark

BUFFER = BufferPlan("out", BufferKind.STORED)
SCHEMA = convert_arrow_to_spark(pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
START = 1_767_225_600_000
NOW = 1_800_000_000_000


@attrs.define
class Stream:
    """A stream of a job, with its micro-batches in the order of the scheduler."""

    session: SparkSession
    pools: WorkerPools
    slot: WorkerSlot
    data: TableData
    source: StreamSource
    folder: Path
    turns: int = 0
    left: Residual | None = None
    bundles: TableBundleRunner | None = None

    def arrives(self, name: str, *ids: int, seconds: Callable[[int], int | None] = int) -> None:
        """Writes a file with rows at timestamps equal to their numbers in seconds, or at other timestamps."""
        lines = []
        for number in ids:
            second = seconds(number)
            at = None if second is None else f"2026-01-01T00:00:{second:02}Z"
            lines.append(json.dumps({"id": number, "at": at}))
        waiting = self.folder.parent / name
        waiting.write_text("\n".join(lines))
        waiting.rename(self.folder / name)

    def attempt(self, attempt: int = 1, *, truncate: bool = False) -> BundleReply | BundleFailure:
        """Returns the result of an attempt at the next micro-batch, in a separate thread as in a server."""
        self.turns += attempt == 1
        number = self.turns
        if self.left is None:
            files = FileCache.open(self.data.store)
            (first,) = ElementsWriter(files, "first", [BUFFER], 1).write([b""])
            one = Input(first.data, truncate=truncate)
        else:
            state = self.left.estimator_state
            one = Input(self.left.data, truncate=truncate, estimator_state=state)
        bundle = Bundle(number, attempt, "stage1", None, (one,), (), 0, 0, 0, NOW + number)
        order = RunBundle(bundle, f"1-{number}-{attempt}")
        self.bundles = TableBundleRunner(self.session, self.pools, self.slot, self._plan, self.data)
        replies: list[Any] = []
        run = self.bundles.run
        begin = lambda: replies.append(run(order, "It"))  # noqa: E731
        start_job_thread("turn", begin, replies.append).join(60)
        (reply,) = replies
        assert not list(Path(self.data.folder).glob("*-checkpoint"))
        return decode_message(encode_message(reply))  # type: ignore[return-value]

    def turn(self, attempt: int = 1) -> BundleDone:
        """Runs and commits a micro-batch."""
        reply = self.attempt(attempt)
        assert isinstance(reply, BundleReply), reply
        (self.left,) = reply.done.residuals
        return reply.done

    def ids(self, done: BundleDone) -> list[int]:
        """Returns the IDs of the rows that were read."""
        inputs = [Input(output.data) for output in done.outputs]
        elements = read_elements_of_inputs(FileCache.open(self.data.store), inputs)
        return [row["id"] for each in elements for row in decode_batch(each).to_pylist()]

    @property
    def position(self) -> StreamPosition:
        """Returns the last committed position."""
        assert self.left is not None
        (element,) = read_elements_of_inputs(
            FileCache.open(self.data.store), [Input(self.left.data)]
        )
        return StreamPosition.from_bytes(element)

    @property
    def _plan(self) -> JobPlan:
        spec = HarnessStage(
            "stage1", "Streams/It", "", b"", InputEdge("in", InputKind.ELEMENTS), ()
        )
        table = TablePlan(urns.READ_STREAM, self.source.to_payload(), "rows")
        stage = StagePlan(spec, True, None, b"", {"write": "out"}, (), table=table)
        return JobPlan(JobContext("job", "job", "{}", {}), {"stage1": stage}, {"out": BUFFER})


@pytest.fixture
def stream(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> Iterator[Stream]:
    (tmp_path / "data").mkdir()
    (tmp_path / "in").mkdir()
    data = TableData("job", StoreSpec(str(tmp_path / "data")), 4, str(tmp_path / "data"))
    source = StreamSource(
        "json",
        path=str(tmp_path / "in"),
        schema=SCHEMA,
        timestamp="at",
        max_lateness=5_000,
        options={"maxFilesPerTrigger": 1},
    )
    yield Stream(spark.session, pools, slot, data, source, tmp_path / "in")
    assert not spark.session.streams.active


def test_micro_batch_resumes_at_position_of_last_micro_batch(stream: Stream) -> None:
    stream.arrives("one", 1, 2)
    stream.arrives("two", 3)
    done = stream.turn()
    assert sorted(stream.ids(done)) == [1, 2]
    # More files exist, so the next micro-batch needn't wait.
    assert stream.left is not None and stream.left.delay == 0
    assert stream.ids(stream.turn()) == [3]
    assert stream.left.delay == 1_000
    before = stream.left.data
    assert stream.ids(stream.turn()) == []
    assert stream.left.data == before
    stream.arrives("three", 4)
    assert stream.ids(stream.turn()) == [4]


def test_repeated_micro_batch_reads_same_rows(stream: Stream) -> None:
    for number in range(3):
        stream.arrives(f"file {number}", number)
    stream.turn()
    lost = stream.attempt()
    assert isinstance(lost, BundleReply)
    # The repeated attempt ignores files that arrived since then.
    stream.arrives("later", 7)
    again = stream.turn(attempt=2)
    assert stream.ids(again) == stream.ids(lost.done) != []
    names = {str(output.data.ref) for done in (lost.done, again) for output in done.outputs}
    assert len(names) == 2


def test_long_stream_reads_each_file_once_with_short_position(stream: Stream) -> None:
    found: list[int] = []
    for number in range(24):
        stream.arrives(f"file {number:02}", number)
        found += stream.ids(stream.turn())
    assert found == list(range(24))
    # The position keeps the file log from the last compaction on, and two entries of each other
    # log.
    assert len(stream.position.files) < 18


def test_large_stream_position_is_written_to_file(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "INLINE_BYTES", 100)
    stream.arrives("one", 1)
    stream.arrives("two", 2)
    assert stream.ids(stream.turn()) == [1]
    assert (Path(stream.data.folder) / "1-1-1-position-0.arrow").exists()
    assert stream.ids(stream.turn()) == [2]


def test_stream_rows_have_timestamps_and_watermark_follows_latest_timestamp(stream: Stream) -> None:
    stream.turn()
    assert stream.left is not None and stream.left.watermark is None
    stream.arrives("one", 12, 40)
    done = stream.turn()
    assert [output.data.facts.min_timestamp for output in done.outputs] == [START + 12_000]
    assert stream.left.watermark == START + 35_000
    stream.arrives("late", 3)
    done = stream.turn()
    assert [output.data.facts.min_timestamp for output in done.outputs] == [START + 3_000]
    assert stream.left.watermark == START + 35_000
    assert stream.left.data.facts.min_timestamp == MIN_TIMESTAMP


def test_stream_rows_without_timestamps_get_start_time_of_micro_batch(stream: Stream) -> None:
    stream.source = attrs.evolve(stream.source, timestamp="")
    stream.arrives("one", 12)
    done = stream.turn()
    assert [output.data.facts.min_timestamp for output in done.outputs] == [NOW + 1]
    stream.turn()
    assert stream.left is not None and stream.left.watermark == NOW + 2


def test_micro_batch_reads_only_selected_columns_and_rows(stream: Stream) -> None:
    stream.source = attrs.evolve(stream.source, columns=("at",), where="id > 2")
    stream.arrives("one", 1, 2, 3)
    inputs = [Input(output.data) for output in stream.turn().outputs]
    (batch,) = map(decode_batch, read_elements_of_inputs(FileCache.open(stream.data.store), inputs))
    assert (batch.schema.names, batch.num_rows) == (["at"], 1)


def test_stream_rows_with_null_timestamp_are_reported(stream: Stream) -> None:
    stream.arrives("one", 1, 2, 3, seconds=lambda number: None if number > 1 else number)
    reply = stream.attempt()
    assert isinstance(reply, BundleFailure) and reply.failure is not None
    assert reply.failure.transform == "Streams/It"
    assert "2 rows of json" in reply.failure.text and "'at' is null" in reply.failure.text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"timestamp": "when"}, "the timestamp column 'when' is missing from"),
        ({"timestamp": "id"}, "the timestamp column 'id' of json"),
        ({"path": "/no/such"}, "PATH_NOT_FOUND"),
        ({"format": "no.such"}, "Failed to find the data source: no.such"),
        ({"format": "jdbc", "options": {"url": "jdbc:derby:memory:db", "dbtable": "t"}}, "jdbc"),
        ({"where": "nothing = 1"}, "nothing"),
    ],
)
def test_invalid_spark_stream_is_reported(stream: Stream, more: Any, said: str) -> None:
    stream.source = attrs.evolve(stream.source, **more)
    reply = stream.attempt()
    assert isinstance(reply, BundleFailure) and reply.failure is not None, reply
    assert said in reply.failure.text
    assert "\tat " not in reply.failure.text


def test_drain_removes_stream_files(stream: Stream) -> None:
    stream.arrives("one", 1)
    stream.turn()
    stream.arrives("two", 2)
    reply = stream.attempt(truncate=True)
    assert isinstance(reply, BundleReply)
    assert (reply.done.outputs, reply.done.residuals) == ((), ())


def test_micro_batch_ends_with_its_job(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may have no running job that could be cancelled."""
    stream.arrives("one", 1)

    def write(*_: Any) -> WrittenElements:
        assert stream.bundles is not None
        stream.bundles.stop()
        return WrittenElements()

    monkeypatch.setattr(micro_batches, "write_rows", write)
    reply = stream.attempt()
    assert isinstance(reply, BundleFailure) and reply.failure is None
    assert "the job has ended" in reply.reason


def test_failing_micro_batch_reports_its_error(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.arrives("one", 1)

    def write(*_: Any) -> WrittenElements:
        raise OSError("no room")

    monkeypatch.setattr(micro_batches, "write_rows", write)
    reply = stream.attempt()
    assert isinstance(reply, BundleFailure) and reply.failure is None
    assert reply.reason == "'Streams/It': OSError: no room"
