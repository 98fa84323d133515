"""Seals: what a database must hold, written into it and beside it, so that nothing it lacks goes unnoticed.

SQLite opens a file whose log is missing, damaged or of another day as if the transactions in it had
never been, and where a page is zeroed rows may just not be there. So each sealed transaction writes into
the database how many there were and what all items in it come to, and the same into a small file beside
it. An item is whatever its owner can give one checksum: best the head of a chain of checksums, which
stands for all that came before.

The file has two lines. A transaction writes the second line before its commit, and the first line after its commit.
A process that is killed during a commit leaves two lines that differ. If the database then has the earlier
transaction, either the commit did not happen, or its part of the log is lost: `Seals.is_unfinished`. Nobody was told that
such a transaction is durable.

What cannot be noticed: a database and its seal that are both put back, or both removed. After a power cut
the seal may be older than the database, which is no damage.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from beam_runner_storage.durable.databases import SEAL_SUFFIX, transaction
from beam_runner_storage.durable.folders import sync_folder

SEAL_TABLE = """
    CREATE TABLE seal (
        only INTEGER PRIMARY KEY CHECK (only = 0), identity INTEGER NOT NULL,
        number INTEGER NOT NULL, items INTEGER NOT NULL, total INTEGER NOT NULL
    );
"""
"""To be among the statements of a `Schema` whose databases are sealed."""

_MODULUS = 1 << 62

_FIRST, _SECOND = 0, 1

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

    @property
    def line(self) -> bytes:
        """A line of always the same length, which is written over the last one in one step."""
        text = f"{self.identity:016x} {self.number:020d} {self.items:020d} {self.total:016x}"
        return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


@attrs.frozen
class _Pair:
    """What is beside a database: the seal of the last transaction that is done, and of the last that was begun."""

    done: Seal
    begun: Seal


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
        self.is_unfinished = False
        """Whether a last transaction was begun that the database did not have when it was opened."""

    def open(self, connection: sqlite3.Connection, checksums: Iterable[int]) -> str | None:
        """Compare what is sealed with the checksums of the items that are there.

        Returns what is missing or wrong, as in "it lacks the last 3 changes", or None. Then `renew`
        makes what is there the whole.

        Raises:
            sqlite3.Error, OSError: the database or the seal cannot be read or written.
        """
        row = connection.execute("SELECT identity, number, items, total FROM seal").fetchone()
        kept = None if row is None else Seal(*row)
        whole = kept if self._is_restored else None
        beside = _read(self._path) if whole is None else _Pair(whole, whole)
        self.was_readable = isinstance(beside, _Pair)
        damage = _difference(kept, beside, list(checksums))
        if damage is None and kept is not None:
            self.is_unfinished = isinstance(beside, _Pair) and kept.number < beside.begun.number
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
        before = self._seal
        assert before is not None, "the seal has not been opened"
        seal = attrs.evolve(before, number=before.number + 1)

        def change(before: int | None, after: int | None) -> None:
            nonlocal seal
            seal = seal.changed(before, after)

        begun = False
        try:
            with transaction(connection):
                yield change
                _keep(connection, seal)
                begun = True
                self._put(_SECOND, seal)
        except BaseException:
            if begun:
                with suppress(OSError):
                    self._put(_SECOND, before)
            raise
        self._seal = seal
        self._put(_FIRST, seal)

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, seal: Seal) -> None:
        """Write both lines, in a file that is made if it is not there."""
        self._seal = seal
        if self._descriptor is None:
            new = not self._path.exists()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
            if new:
                sync_folder(self._path.parent)
        self._put(_FIRST, seal)
        self._put(_SECOND, seal)

    def _put(self, line: int, seal: Seal) -> None:
        assert self._descriptor is not None
        text = seal.line
        os.pwrite(self._descriptor, text, line * len(text))


def _keep(connection: sqlite3.Connection, seal: Seal) -> None:
    connection.execute("INSERT OR REPLACE INTO seal VALUES (0, ?, ?, ?, ?)", attrs.astuple(seal))


def _read(path: Path) -> _Pair | str:
    """The seals beside a database, or what is wrong with them.

    Early versions wrote one line, of what was done.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return "missing"
    seals = [_seal_of(line) for line in lines]
    first, last = seals[0] if seals else None, seals[-1] if seals else None
    return "damaged" if first is None or last is None or len(seals) > 2 else _Pair(first, last)


def _seal_of(line: bytes) -> Seal | None:
    try:
        identity, number, items, total, _ = line.split()
        seal = Seal(int(identity, 16), int(number), int(items), int(total, 16))
    except ValueError:
        return None
    return seal if line == seal.line else None


def _difference(kept: Seal | None, beside: _Pair | str, checksums: list[int]) -> str | None:
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
    done, begun = beside.done, beside.begun
    if not kept.identity == done.identity == begun.identity:
        return "its seal is that of another file"
    if kept.number < done.number:
        return f"it lacks the last {done.number - kept.number} changes"
    if any(kept.number == seal.number and kept != seal for seal in (done, begun)):
        return "its last change is not the one that was sealed"
    return None
