"""Grouping in columns behind the engine's port, and a merger of windows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import attrs
import pyarrow as pa
from beam_runner_data.grouping.groups import group_into_chunks
from beam_runner_data.rows.columns import build_batch
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import GroupChunk, KeyedChunk
from beam_runner_model.panes import ONLY_FIRING, encode_pane
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.value_pieces import GroupValues
from beam_runner_model.windows import OpaqueWindow, Window

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
    return build_batch(
        KeyedChunk(
            b"".join(keys), _ends(keys), b"".join(values), _ends(values), windows, timestamps
        )
    )


@attrs.define
class ColumnsGrouper:
    """Column grouping behind the engine's port; values get a length prefix so that they can be split."""

    strategy: WindowingStrategy
    batches: list[pa.RecordBatch] = attrs.field(factory=list)
    merger: WindowMerger | None = None
    group: Callable[..., Iterator[GroupChunk]] = group_into_chunks

    def add_elements(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[int],
        values: Sequence[bytes],
    ) -> None:
        if keys:
            framed = [len(v).to_bytes(_HEADER, "big") + v for v in values]
            self.batches.append(keyed(keys, windows, timestamps, framed))

    def build_groups(self) -> Iterator[WindowPane]:
        for chunk in self.group(self.batches, self.strategy, self.merger):
            assert chunk.pane == encode_pane(ONLY_FIRING)
            for index, key in enumerate(chunk.keys):
                windows = chunk.windows
                yield WindowPane(
                    key,
                    windows if isinstance(windows, bytes) else windows[index],
                    chunk.timestamps[index],
                    ONLY_FIRING,
                    _unframe(whole(chunk.values[index]), chunk.counts[index]),
                )


def whole(values: GroupValues) -> bytes:
    """Returns all values of a group in order."""
    if isinstance(values, (bytes, memoryview)):
        return bytes(values)
    return b"".join(values.piece(number) for number in range(values.pieces))


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


class JoinParity:
    """Window function that merges the windows of each key with even ends, and the windows with odd ends."""

    def __init__(self) -> None:
        self.asked = 0

    @staticmethod
    def window(end: int) -> Window:
        """Returns a window with this end."""
        return OpaqueWindow(b"w", end)

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        self.asked += 1
        return [dict(self._joined(windows)) for windows in windows_of_keys]

    def _joined(self, windows: Collection[Window]) -> Iterator[tuple[Window, Window]]:
        for parity in (0, 1):
            mine = [w for w in windows if w.max_timestamp() % 2 == parity]
            if len(mine) > 1:
                joined = OpaqueWindow(b"joined", max(w.max_timestamp() for w in mine))
                yield from ((window, joined) for window in mine)
