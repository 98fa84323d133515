"""Grouping in columns obeys the same rules as every other bulk grouper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pytest
from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.testing.bulk_contract import BulkCase, bulk_cases, check_bulk_grouper
from beam_runner_engine.values.panes import ONLY_FIRING, encode_pane
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.window_fns import OpaqueWindows
from beam_runner_worker.records import KeyedChunk

from beam_spark_executor.task.columns import by_shard, from_bytes, to_batch, to_bytes
from beam_spark_executor.task.grouping import group_chunks

_HEADER = 4


def _ends(parts: Sequence[bytes]) -> list[int]:
    ends, end = [], 0
    for part in parts:
        end += len(part)
        ends.append(end)
    return ends


def keyed(
    keys: Sequence[bytes],
    windows: bytes | Sequence[bytes],
    timestamps: Sequence[int] | None,
    values: Sequence[bytes],
) -> pa.RecordBatch:
    return to_batch(
        KeyedChunk(
            b"".join(keys), _ends(keys), b"".join(values), _ends(values), windows, timestamps
        )
    )


@attrs.define
class ColumnsGrouper:
    """The column grouping behind the engine's port; values get a length so that they can be cut."""

    strategy: WindowingStrategy
    batches: list[pa.RecordBatch] = attrs.field(factory=list)

    def add(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[int],
        values: Sequence[bytes],
    ) -> None:
        if keys:
            framed = [len(v).to_bytes(_HEADER, "big") + v for v in values]
            self.batches.append(keyed(keys, windows, timestamps, framed))

    def groups(self) -> Iterator[Group]:
        for chunk in group_chunks(self.batches, self.strategy):
            assert chunk.pane == encode_pane(ONLY_FIRING)
            for index, key in enumerate(chunk.keys):
                windows = chunk.windows
                yield Group(
                    key,
                    windows if isinstance(windows, bytes) else windows[index],
                    chunk.timestamps[index],
                    ONLY_FIRING,
                    _unframe(bytes(chunk.values[index]), chunk.counts[index]),
                )


def _unframe(blob: bytes, count: int) -> list[bytes]:
    values = []
    position = 0
    while position < len(blob):
        size = int.from_bytes(blob[position : position + _HEADER], "big")
        position += _HEADER
        values.append(blob[position : position + size])
        position += size
    assert len(values) == count
    return values


def _computable(case: BulkCase) -> bool:
    return not (isinstance(case.strategy.window_fn, OpaqueWindows) and case.strategy.merges)


@pytest.mark.parametrize(
    "case", list(filter(_computable, bulk_cases())), ids=lambda case: case.name
)
def test_obeys_the_contract(case: BulkCase) -> None:
    check_bulk_grouper(ColumnsGrouper, case)


def test_shared_windows_survive_the_way_through_a_blob() -> None:
    batch = from_bytes(to_bytes(keyed([b"a", b"b"], b"w", None, [b"1", b"2"])))
    assert (batch.schema.metadata or {})[b"window"] == b"w"
    assert batch.column("key").to_pylist() == [b"a", b"b"]


def test_shards_hold_every_row_once_and_equal_keys_together() -> None:
    keys = [b"k%d" % (i % 50) for i in range(1000)]
    values = [b"%d" % i for i in range(1000)]
    parts = dict(by_shard(keyed(keys, b"", None, values), 7))
    rows = [row for part in parts.values() for row in part.column("value").to_pylist()]
    assert sorted(rows) == sorted(values)
    seen: set[bytes] = set()
    for part in parts.values():
        distinct = set(part.column("key").to_pylist())
        assert not distinct & seen
        seen |= distinct


def test_the_shard_of_a_key_is_the_same_in_every_process() -> None:
    # CRC-32 of b"apple" is 2838417488: a literal, so that a change of hash is noticed.
    assert [shard for shard, _ in by_shard(keyed([b"apple"], b"", None, [b"1"]), 1000)] == [488]
