"""Names and contents of the objects in a store that form a log of database transactions.

The position of an entry is an epoch and a number. An epoch belongs to one server. The checksum of
an entry chains it to the next entry. The last entry of an epoch is a closing entry (seal), which
the server of the next epoch writes. A base is a copy of the database before the entry at its
position. A claim requests the server of an epoch to stop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import msgpack
import xxhash

from beam_runner_storage.durable.logged import LogFailed, Transaction

_FORMAT = 1
_CHECKSUM_BYTES = 8
_ENTRY = re.compile(r"entries/(\d{8})/(\d{12})")
_BASE = re.compile(r"bases/(\d{8})-(\d{12})-([0-9a-f]{16})-([0-9a-f]{16})")


@attrs.frozen(order=True)
class LogPosition:
    """Position of an entry in the log: its epoch, and its number within the epoch."""

    epoch: int
    number: int

    @property
    def object_name(self) -> str:
        """Name of the log entry's object in the store."""
        return f"entries/{self.epoch:08d}/{self.number:012d}"

    @classmethod
    def parse_name(cls, name: str) -> LogPosition | None:
        """Returns the position of the entry with this name, or None for other objects."""
        found = _ENTRY.fullmatch(name)
        return cls(int(found[1]), int(found[2])) if found else None


@attrs.frozen(order=True)
class LogSnapshot:
    """Snapshot of the database in the log, which the later log entries extend.

    `place` is the position of the next entry. `chain` is the checksum of the previous entry.
    `checksum` is the checksum of the copy.
    """

    place: LogPosition
    chain: int
    checksum: int

    @property
    def object_name(self) -> str:
        """Name of the snapshot's object in the store."""
        place = f"{self.place.epoch:08d}-{self.place.number:012d}"
        return f"bases/{place}-{self.chain:016x}-{self.checksum:016x}"

    @classmethod
    def parse_name(cls, name: str) -> LogSnapshot | None:
        """Returns the snapshot with this name, or None for other objects."""
        found = _BASE.fullmatch(name)
        if found is None:
            return None
        place = LogPosition(int(found[1]), int(found[2]))
        return cls(place, int(found[3], 16), int(found[4], 16))


def get_claim_name(epoch: int) -> str:
    """Returns the name of the object by which a new server claims the log of an epoch."""
    return f"claims/{epoch:08d}"


@attrs.frozen
class LogEntry:
    """Entry that a server wrote to the log; ``transactions`` is ``None`` for the entry that closes
    an epoch (seal).
    """

    writer: bytes
    before: int
    transactions: Sequence[Transaction] | None

    def encode_entry(self) -> bytes:
        """Returns the entry as the contents of its object, with a checksum at the end."""
        body: bytes = msgpack.packb((_FORMAT, self.writer, self.before, self.transactions))
        return body + xxhash.xxh3_64_digest(body)


def get_chain_checksum(contents: bytes) -> int:
    """Returns the checksum of an encoded entry, which the next entry contains."""
    return int.from_bytes(contents[-_CHECKSUM_BYTES:], "big")


def decode_entry(place: LogPosition, contents: bytes, before: int) -> LogEntry:
    """Decodes and verifies the entry at a position; ``before`` is the checksum of the previous entry.

    Raises:
        LogFailed: The entry is damaged, or another version wrote it.
    """
    body = contents[:-_CHECKSUM_BYTES]
    if xxhash.xxh3_64_digest(body) != contents[-_CHECKSUM_BYTES:]:
        raise LogFailed(f"{place.object_name} is damaged: the checksum doesn't match")
    written, *values = msgpack.unpackb(body, use_list=False)
    if written != _FORMAT:
        raise LogFailed(
            f"{place.object_name} was written by another version of this program (format"
            f" {written}; this version supports {_FORMAT})"
        )
    entry = LogEntry(*values)
    if entry.before != before:
        raise LogFailed(f"{place.object_name} doesn't follow the previous entry")
    return entry
