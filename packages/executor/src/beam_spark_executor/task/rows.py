"""The rows that Spark carries: blobs of data, and what tasks have to say, riding along with it.

What a task says (its reply) travels through the same shuffles as its data, so that whichever of
several attempts Spark takes the data from, it takes the reply from the same one: metrics count
exactly what was delivered.
"""

from __future__ import annotations

import enum
import pickle
import struct
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
from beam_runner_worker.records import ElementChunk, MonitoringInfo
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

_COUNT = struct.Struct(">Q")

SCHEMA = StructType(
    [
        StructField("shard", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("data", BinaryType()),
    ]
)
_ARROW_SCHEMA = pa.schema([("shard", pa.int32()), ("kind", pa.int32()), ("data", pa.binary())])


class RowKind(enum.IntEnum):
    """What a row holds."""

    ELEMENTS = 0
    """Encoded elements, one after the other, behind their number as eight bytes (big-endian)."""
    KEYED = 1
    """Keyed columns in Arrow's stream format."""
    REPLY = 2
    """A pickled :class:`TaskReply`."""


@attrs.frozen
class Row:
    """One row for a shard."""

    shard: int
    kind: RowKind
    data: bytes

    def to_batch(self) -> pa.RecordBatch:
        """The row as an Arrow batch of its own."""
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.shard], pa.int32()),
                pa.array([int(self.kind)], pa.int32()),
                pa.array([self.data], pa.binary()),
            ],
            schema=_ARROW_SCHEMA,
        )


@attrs.frozen
class StoredFile:
    """A file of rows that a task has written: an Arrow IPC file with one row a batch.

    Attributes:
        buffer_id: the buffer whose data it is.
        path: where it is.
        rows: how many rows it has.
        size: bytes of data in them.
    """

    buffer_id: str
    path: str
    rows: int
    size: int


@attrs.frozen
class TaskFailure:
    """User code, or the SDK for it, raised.

    Attributes:
        transform: the full name of the transform.
        summary: type and text of the exception.
        trace: the traceback.
    """

    transform: str
    summary: str
    trace: str


@attrs.frozen
class TaskReply:
    """What one task of one stage has done.

    Attributes:
        stage_id: the stage.
        metrics: of its bundle.
        files: what it has written to files.
        failure: why the bundle failed, if it did; then nothing else in the section counts.
    """

    stage_id: str
    metrics: tuple[MonitoringInfo, ...] = ()
    files: tuple[StoredFile, ...] = ()
    failure: TaskFailure | None = None

    def to_row(self, shard: int) -> Row:
        """The reply as a row to be carried along."""
        return Row(shard, RowKind.REPLY, pickle.dumps(self))


def elements_row(shard: int, chunk: ElementChunk) -> Row:
    """A chunk of elements as a row."""
    return Row(shard, RowKind.ELEMENTS, b"".join((_COUNT.pack(chunk.count), chunk.data)))


def read_elements(data: pa.Buffer) -> ElementChunk:
    """The chunk of elements in a row."""
    view = memoryview(data)
    (count,) = _COUNT.unpack_from(view)
    return ElementChunk(count, bytes(view[_COUNT.size :]))


def read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[RowKind, pa.Buffer]]:
    """The rows of the batches that Spark gives to a task; data is not copied."""
    for batch in batches:
        kinds = batch.column("kind").to_pylist()
        data = batch.column("data")
        for index, kind in enumerate(kinds):
            yield RowKind(kind), data[index].as_buffer()


def read_reply(data: bytes | pa.Buffer) -> TaskReply:
    """The reply in a row that a task of this server wrote."""
    reply = pickle.loads(data)
    assert isinstance(reply, TaskReply)
    return reply
