"""Rows carry elements, keyed columns and replies through Spark unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from beam_runner_worker.records import ElementChunk, MonitoringInfo

from beam_spark_executor.task.rows import (
    Row,
    RowKind,
    StoredFile,
    TaskFailure,
    TaskReply,
    elements_row,
    read_elements,
    read_reply,
    read_rows,
)


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000)])
def test_elements(data: bytes) -> None:
    chunk = ElementChunk(7, data)
    row = elements_row(3, chunk)
    assert (row.shard, row.kind) == (3, RowKind.ELEMENTS)
    assert read_elements(pa.py_buffer(row.data)) == chunk


def test_batches_of_any_number_of_rows() -> None:
    rows = [Row(n, RowKind.KEYED, b"%d" % n) for n in range(5)]
    merged = pa.concat_batches([row.to_batch() for row in rows[:4]])
    batches = [merged, merged.slice(0, 0), rows[4].to_batch()]
    read = [(kind, data.to_pybytes()) for kind, data in read_rows(batches)]
    assert read == [(RowKind.KEYED, b"%d" % n) for n in range(5)]


def test_replies() -> None:
    reply = TaskReply(
        "stage1",
        metrics=(MonitoringInfo("urn", "type", (("NAME", "n"),), b"\1"),),
        files=(StoredFile("buffer", "file", 1, 2),),
        failure=TaskFailure("ParDo", "ValueError: x", "Traceback"),
    )
    row = reply.to_row(4)
    assert (row.shard, row.kind) == (4, RowKind.REPLY)
    assert read_reply(row.data) == reply
    assert read_reply(pa.py_buffer(row.data)) == reply
