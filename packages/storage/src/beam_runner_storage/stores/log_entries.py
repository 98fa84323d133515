"""The objects of a log in a store: what they are called, and what is in them.

An entry has its place: an epoch, which is one server's, and a number in it. Each is chained to the one before by its
checksum. The last of an epoch is its seal, which the server of the next epoch has put there. A base is a copy of the
database as it was before the entry of its place. A claim says that the server of an epoch is to stop.
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
    """Where an entry is in the log."""

    epoch: int
    number: int

    @property
    def name(self) -> str:
        """The object's."""
        return f"entries/{self.epoch:08d}/{self.number:012d}"

    @classmethod
    def of(cls, name: str) -> LogPosition | None:
        """That of the entry of this name; None of other objects."""
        found = _ENTRY.fullmatch(name)
        return cls(int(found[1]), int(found[2])) if found else None


@attrs.frozen(order=True)
class Base:
    """A copy of the database: the place of the first entry after it, the checksum of the entry before, and its own."""

    place: LogPosition
    chain: int
    checksum: int

    @property
    def name(self) -> str:
        """The object's."""
        place = f"{self.place.epoch:08d}-{self.place.number:012d}"
        return f"bases/{place}-{self.chain:016x}-{self.checksum:016x}"

    @classmethod
    def of(cls, name: str) -> Base | None:
        """That of this name; None of other objects."""
        found = _BASE.fullmatch(name)
        if found is None:
            return None
        place = LogPosition(int(found[1]), int(found[2]))
        return cls(place, int(found[3], 16), int(found[4], 16))


def claim(epoch: int) -> str:
    """The name of the object that says so."""
    return f"claims/{epoch:08d}"


@attrs.frozen
class Entry:
    """What one server has written at a place; ``transactions`` is ``None`` of a seal."""

    writer: bytes
    before: int
    transactions: Sequence[Transaction] | None

    def packed(self) -> bytes:
        """The object's contents, which end with their checksum."""
        body: bytes = msgpack.packb((_FORMAT, self.writer, self.before, self.transactions))
        return body + xxhash.xxh3_64_digest(body)


def chain_of(contents: bytes) -> int:
    """The checksum of an entry, to which the next is chained."""
    return int.from_bytes(contents[-_CHECKSUM_BYTES:], "big")


def unpacked(place: LogPosition, contents: bytes, before: int) -> Entry:
    """The entry at a place after the one with a checksum.

    Raises:
        LogFailed: it is not what was written, or another version wrote it.
    """
    body = contents[:-_CHECKSUM_BYTES]
    if xxhash.xxh3_64_digest(body) != contents[-_CHECKSUM_BYTES:]:
        raise LogFailed(f"{place.name} is damaged: the checksum doesn't match")
    written, *values = msgpack.unpackb(body, use_list=False)
    if written != _FORMAT:
        raise LogFailed(
            f"{place.name} was written by another version of this program (format"
            f" {written}; this version supports {_FORMAT})"
        )
    entry = Entry(*values)
    if entry.before != before:
        raise LogFailed(f"{place.name} doesn't follow the previous entry")
    return entry
