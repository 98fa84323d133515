"""Output of one Spark task of a section, for the tasks that run the section's next stages.

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
from beam_runner_runtime.sections.wire import encode_section_reply

PARCEL_BYTES = 128 * 1024
"""Size of a parcel (batch of rows) in bytes. Smaller parcels have more overhead in Python, in Java
and in Spark's shuffle.
"""

MOST_ROW_BYTES = 1 << 30
"""Maximum size of a row in bytes. Java stores a parcel in one array, which has at most 2 GiB, and
Spark adds some bytes.
"""

Send = Callable[[int, bytes], None]
"""Function that sends a parcel (batch of rows) to the task of a shard."""


@attrs.define
class _PendingBlock:
    """Rows for one stage and shard that don't fill a parcel (batch of rows) yet."""

    rows: list[tuple[bytes, bytes, bytes]] = attrs.field(factory=list)
    count: int = 0
    size: int = 0


class SectionOutbox:
    """Sends the output of a section's task to other tasks, as parcels (batches of rows). Not
    thread-safe.

    The same rows in the same order always give the same parcels.

    Args:
        shards: number of tasks in the next level (Spark stage).
        most_bytes: maximum bytes of waiting rows, for all shards together.

    Attributes:
        overflows: whether a row was too large for a parcel, so that the output is incomplete.
    """

    def __init__(self, source: int, shards: int, send: Send, most_bytes: int) -> None:
        self._source = source
        self._shards = shards
        self._send = send
        self._most = most_bytes
        self._waiting: dict[tuple[int, int], _PendingBlock] = {}
        self._bytes = 0
        self.overflows = False
        self._numbers = [0] * shards
        self._digests = [xxhash.xxh3_64() for _ in range(shards)]

    def add_row(self, shard: int, stage: int, row: Row) -> None:
        """Adds a row for a later stage of the section. Sends the parcel (batch of rows) when the
        parcel is full.
        """
        if len(row.data) > MOST_ROW_BYTES:
            self.overflows = True
            return
        place = (shard, stage)
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = _PendingBlock()
        waiting.rows.append(encode_row(row))
        waiting.count += row.count
        waiting.size += len(row.data)
        self._bytes += len(row.data)
        if waiting.size >= PARCEL_BYTES:
            self._send_block(place)
        elif self._bytes > self._most:
            self._send_all_blocks()

    def send_remaining_rows(self, reply: SectionReply | None, *, broken: bool) -> None:
        """Sends the waiting rows, then the reply to one of the next tasks, and a closing record
        (counts and digests of the sent rows) to each next task.

        Args:
            reply: reply for the server, if any.
            broken: whether output is missing, because the section must end.
        """
        self._send_all_blocks()
        if reply is not None:
            shard = self._source % self._shards
            head = ShuffleBlockHeader(ShuffleBlockKind.REPLY, self._source, self._numbers[shard])
            self._send(shard, encode_block(head, (encode_section_reply(reply),)))
            self._numbers[shard] += 1
        digests = [digest.intdigest() for digest in self._digests]
        of_all = combine_shard_digests(digests)
        for shard, number in enumerate(self._numbers):
            told = OutputDeclaration(number, digests[shard], of_all, broken=broken)
            head = ShuffleBlockHeader(ShuffleBlockKind.TOLD, self._source, number)
            self._send(shard, encode_block(head, (told.encode(),)))

    def _send_all_blocks(self) -> None:
        for place in list(self._waiting):
            self._send_block(place)

    def _send_block(self, place: tuple[int, int]) -> None:
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
