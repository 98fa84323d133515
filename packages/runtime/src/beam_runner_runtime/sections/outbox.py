"""What one task of a section sends to the tasks after it: parcels by shard, and at the end what they were."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import xxhash
from beam_runner_data.rows.parcels import Head, ParcelKind, encode_parcel, encode_row
from beam_runner_data.rows.row import Row

from beam_runner_runtime.sections.proof import Told, digest_of_all
from beam_runner_runtime.sections.replies import SectionReply
from beam_runner_runtime.sections.wire import encode_reply

PARCEL_BYTES = 128 * 1024
"""Smaller parcels cost more for each byte in Python, in Java and in Spark's shuffle."""

MOST_ROW_BYTES = 1 << 30
"""Java has a parcel in one array, and Spark keeps some bytes beside it."""

Send = Callable[[int, bytes], None]
"""Takes a parcel for a shard."""


@attrs.define
class _Waiting:
    """Rows for one stage and shard that don't make a parcel yet."""

    rows: list[tuple[bytes, bytes, bytes]] = attrs.field(factory=list)
    count: int = 0
    size: int = 0


class Outbox:
    """Belongs to one thread.

    The same rows in the same order make the same parcels, whatever else is different.

    Args:
        source: the number of this task.
        shards: how many tasks come after it.
        send: takes parcels.
        most_bytes: how much may wait, of all shards together, for more to come.

    Attributes:
        overflows: whether a row was too large to be sent; then something is missing.
    """

    def __init__(self, source: int, shards: int, send: Send, most_bytes: int) -> None:
        self._source = source
        self._shards = shards
        self._send = send
        self._most = most_bytes
        self._waiting: dict[tuple[int, int], _Waiting] = {}
        self._bytes = 0
        self.overflows = False
        self._numbers = [0] * shards
        self._digests = [xxhash.xxh3_64() for _ in range(shards)]

    def add(self, shard: int, stage: int, row: Row) -> None:
        """Takes a row for a stage, by its place in the section."""
        if len(row.data) > MOST_ROW_BYTES:
            self.overflows = True
            return
        place = (shard, stage)
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = _Waiting()
        waiting.rows.append(encode_row(row))
        waiting.count += row.count
        waiting.size += len(row.data)
        self._bytes += len(row.data)
        if waiting.size >= PARCEL_BYTES:
            self._close(place)
        elif self._bytes > self._most:
            self._close_all()

    def finish(self, reply: SectionReply | None, *, broken: bool) -> None:
        """Sends what still waits, the reply to one of the shards, and to each what it was sent.

        Args:
            reply: what is to come to the server, if anything is.
            broken: whether something is missing, since the section must end.
        """
        self._close_all()
        if reply is not None:
            shard = self._source % self._shards
            head = Head(ParcelKind.REPLY, self._source, self._numbers[shard])
            self._send(shard, encode_parcel(head, (encode_reply(reply),)))
            self._numbers[shard] += 1
        digests = [digest.intdigest() for digest in self._digests]
        of_all = digest_of_all(digests)
        for shard, number in enumerate(self._numbers):
            told = Told(number, digests[shard], of_all, broken=broken)
            head = Head(ParcelKind.TOLD, self._source, number)
            self._send(shard, encode_parcel(head, (told.encode(),)))

    def _close_all(self) -> None:
        for place in list(self._waiting):
            self._close(place)

    def _close(self, place: tuple[int, int]) -> None:
        waiting = self._waiting.pop(place)
        self._bytes -= waiting.size
        shard, stage = place
        number = self._numbers[shard]
        self._numbers[shard] += 1
        head = Head(ParcelKind.ROWS, self._source, number, stage, waiting.count, waiting.size)
        parcel = encode_parcel(head, (part for row in waiting.rows for part in row))
        self._digests[shard].update(xxhash.xxh3_64_digest(parcel))
        self._send(shard, parcel)
