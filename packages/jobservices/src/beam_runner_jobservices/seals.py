"""Seals: what a database must hold, written into it and beside it, so that nothing it lacks goes unnoticed.

SQLite opens a file whose log is missing, damaged or of another day as if the transactions in it had
never been, and where a page is zeroed rows may just not be there. So each sealed transaction writes into
the database how many there were and what all items in it come to, and after its commit the same into a
small file beside it. An item is whatever its owner can give one checksum: best the head of a chain of
checksums, which stands for all that came before.

What cannot be noticed: a database and its seal that are both put back, or both removed. After a power cut
the seal may be older than the database, which is no damage.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from .databases import SEAL_SUFFIX, transaction
from .folders import sync_folder

SEAL_TABLE = """
    CREATE TABLE seal (
        only INTEGER PRIMARY KEY CHECK (only = 0), identity INTEGER NOT NULL,
        number INTEGER NOT NULL, items INTEGER NOT NULL, total INTEGER NOT NULL
    );
"""
"""To be among the statements of a `Schema` whose databases are sealed."""

_MODULUS = 1 << 62

Change = Callable[[int | None, int | None], None]
"""Says that the checksum of an item was the first, and is the second; None where there is no item."""


@attrs.frozen
class Seal:
    """`number` transactions made the database `identity`; the checksums of its `items` items have the
    sum `total`, modulo 2 to the 62nd.
    """

    identity: int
    number: int
    items: int
    total: int

    @classmethod
    def new(cls, checksums: Iterable[int]) -> Seal:
        """The first seal of a database with these items."""
        found = list(checksums)
        return cls(secrets.randbits(62), 0, len(found), sum(found) % _MODULUS)

    def changed(self, before: int | None, after: int | None) -> Seal:
        """This seal with an item less, more, or of another checksum."""
        items = self.items - (before is not None) + (after is not None)
        total = (self.total - (before or 0) + (after or 0)) % _MODULUS
        return attrs.evolve(self, items=items, total=total)


class Seals:
    """The seal of the database at `path`, which the caller holds, see `folders`, and has opened.

    For one thread at a time. With `is_restored` the database was just made of a log, which is whole: then
    there is nothing beside it yet.
    """

    def __init__(self, path: Path, *, is_restored: bool = False) -> None:
        self._path = Path(f"{path}{SEAL_SUFFIX}")
        self._is_restored = is_restored
        self._descriptor: int | None = None
        self._seal: Seal | None = None
        self.was_readable = False
        """Whether there was a seal beside the database to compare with when it was opened."""

    def open(self, connection: sqlite3.Connection, checksums: Iterable[int]) -> str | None:
        """Compare what is sealed with the checksums of the items that are there.

        Returns what is missing or wrong, as in "it lacks the last 3 changes", or None. Then `renew`
        makes what is there the whole.

        Raises:
            sqlite3.Error, OSError: the database or the seal cannot be read or written.
        """
        row = connection.execute("SELECT identity, number, items, total FROM seal").fetchone()
        kept = None if row is None else Seal(*row)
        beside = kept if self._is_restored and kept is not None else _read(self._path)
        self.was_readable = isinstance(beside, Seal)
        damage = _difference(kept, beside, list(checksums))
        if damage is None and kept is not None:
            self._write(kept)
        elif damage is None:
            self.renew(connection, ())
        return damage

    def renew(self, connection: sqlite3.Connection, checksums: Iterable[int]) -> None:
        """Seal the database with the items it has, whatever was sealed before.

        Raises:
            sqlite3.Error, OSError: the database or the seal cannot be written.
        """
        seal = Seal.new(checksums)
        with transaction(connection):
            _keep(connection, seal)
        self._write(seal)

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[Change]:
        """One sealed transaction; it yields what is to be told of each item that changes.

        Where what the transaction wrote may be lost with the machine the seal may not be, and tells of
        it. Costs 20 microseconds more than one that is not sealed.

        Raises:
            sqlite3.Error: it cannot be begun or committed, and nothing has changed.
            OSError: it is committed, but the seal cannot be written.
        """
        assert self._seal is not None, "the seal has not been opened"
        seal = attrs.evolve(self._seal, number=self._seal.number + 1)

        def change(before: int | None, after: int | None) -> None:
            nonlocal seal
            seal = seal.changed(before, after)

        with transaction(connection):
            yield change
            _keep(connection, seal)
        self._write(seal)

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, seal: Seal) -> None:
        self._seal = seal
        if self._descriptor is None:
            new = not self._path.exists()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
            if new:
                sync_folder(self._path.parent)
        os.pwrite(self._descriptor, _text(seal), 0)


def _keep(connection: sqlite3.Connection, seal: Seal) -> None:
    connection.execute("INSERT OR REPLACE INTO seal VALUES (0, ?, ?, ?, ?)", attrs.astuple(seal))


def _text(seal: Seal) -> bytes:
    """A line of always the same length, which is written over the last one in one step."""
    text = f"{seal.identity:016x} {seal.number:020d} {seal.items:020d} {seal.total:016x}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def _read(path: Path) -> Seal | str:
    """The seal beside a database, or what is wrong with it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return "missing"
    try:
        identity, number, items, total, _ = text.split()
        seal = Seal(int(identity, 16), int(number), int(items), int(total, 16))
    except ValueError:
        return "damaged"
    return seal if text == _text(seal) else "damaged"


def _difference(kept: Seal | None, beside: Seal | str, checksums: list[int]) -> str | None:
    """What a database lacks, by the seal in it and the one beside it, or None."""
    if kept is None:
        return None if beside == "missing" and not checksums else "it is not sealed"
    if kept.items != len(checksums):
        return f"{len(checksums)} jobs are in it, and not {kept.items}"
    if kept.total != sum(checksums) % _MODULUS:
        return "something in it is not what was written last"
    if isinstance(beside, str):
        if beside == "missing" and not kept.number:
            return None
        return f"its seal is {beside}, which could tell whether its last changes are there"
    if kept.identity != beside.identity:
        return "its seal is that of another file"
    if kept.number < beside.number:
        return f"it lacks the last {beside.number - kept.number} changes"
    if kept.number == beside.number and kept != beside:
        return "its last change is not the one that was sealed"
    return None
