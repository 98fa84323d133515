"""Output of a section task (a Spark task that runs some stages) for the tasks that run the next stages.

The output consists of parcels (rows for one shard), and then a declaration of all parcels.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import xxhash
from beam_runner_data.rows.row import Row
from beam_runner_data.rows.shuffle_blocks import (
    ShuffleBlockHeader,
    ShuffleBlockKind,
    encode_block,
    encode_row,
)

from beam_runner_runtime.sections.replies import SectionReply
from beam_runner_runtime.sections.shuffle_consistency import (
    OutputDeclaration,
    combine_shard_digests,
)
from beam_runner_runtime.sections.wire import encode_reply

PARCEL_BYTES = 128 * 1024
"""Parcel size in bytes; smaller parcels cost more per byte in Python, in Java and in Spark's shuffle."""

MOST_ROW_BYTES = 1 << 30
"""Maximum bytes of a row: Java stores a parcel in one array, and Spark adds some bytes to it."""

Send = Callable[[int, bytes], None]
"""Function that sends a parcel to a shard."""


@attrs.define
class _PendingParcel:
    """Rows for one stage and shard that wait for a full parcel."""

    rows: list[tuple[bytes, bytes, bytes]] = attrs.field(factory=list)
    count: int = 0
    size: int = 0


class SectionOutbox:
    """Output of a section's task, sent as parcels (batches of rows) to other tasks; used by one thread.

    The parcels depend only on the rows and their order.

    Args:
        source: number of this task.
        shards: number of tasks in the next level.
        send: function that sends a parcel.
        most_bytes: maximum bytes of waiting rows, for all shards together.

    Attributes:
        overflows: whether a row was too large and is missing.
    """

    def __init__(self, source: int, shards: int, send: Send, most_bytes: int) -> None:
        self._source = source
        self._shards = shards
        self._send = send
        self._most = most_bytes
        self._waiting: dict[tuple[int, int], _PendingParcel] = {}
        self._bytes = 0
        self.overflows = False
        self._numbers = [0] * shards
        self._digests = [xxhash.xxh3_64() for _ in range(shards)]

    def add_row(self, shard: int, stage: int, row: Row) -> None:
        """Adds a row for a later stage of the section, and sends a parcel when it is full."""
        if len(row.data) > MOST_ROW_BYTES:
            self.overflows = True
            return
        place = (shard, stage)
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = _PendingParcel()
        waiting.rows.append(encode_row(row))
        waiting.count += row.count
        waiting.size += len(row.data)
        self._bytes += len(row.data)
        if waiting.size >= PARCEL_BYTES:
            self._send_parcel(place)
        elif self._bytes > self._most:
            self._send_all_parcels()

    def send_remaining(self, reply: SectionReply | None, *, broken: bool) -> None:
        """Sends the waiting rows, then the reply to one shard, and a declaration to each shard.

        Args:
            reply: reply for the server, if any.
            broken: whether output is missing because the section must end.
        """
        self._send_all_parcels()
        if reply is not None:
            shard = self._source % self._shards
            head = ShuffleBlockHeader(ShuffleBlockKind.REPLY, self._source, self._numbers[shard])
            self._send(shard, encode_block(head, (encode_reply(reply),)))
            self._numbers[shard] += 1
        digests = [digest.intdigest() for digest in self._digests]
        of_all = combine_shard_digests(digests)
        for shard, number in enumerate(self._numbers):
            told = OutputDeclaration(number, digests[shard], of_all, broken=broken)
            head = ShuffleBlockHeader(ShuffleBlockKind.TOLD, self._source, number)
            self._send(shard, encode_block(head, (told.encode(),)))

    def _send_all_parcels(self) -> None:
        for place in list(self._waiting):
            self._send_parcel(place)

    def _send_parcel(self, place: tuple[int, int]) -> None:
        waiting = self._waiting.pop(place)
        self._bytes -= waiting.size
        shard, stage = place
        number = self._numbers[shard]
        self._numbers[shard] += 1
        head = ShuffleBlockHeader(
            ShuffleBlockKind.ROWS, self._source, number, stage, waiting.count, waiting.size
        )
        parcel = encode_block(head, (part for row in waiting.rows for part in row))
        self._digests[shard].update(xxhash.xxh3_64_digest(parcel))
        self._send(shard, parcel)
