"""Large segments: an sqlite database that is written once and read by cell and subkey.

Rows lie in the order of cell and subkey, so that a merge reads and writes from front to back. The
index holds the weights too: what a change hides is weighed without reading any data. Pages are
large because sqlite gives the rest of a row that doesn't fit a page of its own.
"""

from __future__ import annotations

import heapq
import pickle
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from beam_runner_engine.keyed.cells import Range

from beam_spark_executor.storage.state_records import (
    HIDES,
    ROW,
    Entry,
    Hides,
    SegmentError,
    weight_of,
)

MAGIC = b"SQLite format 3\0"

_PAGE_SIZE = 16384
_SCHEMA = f"""
    PRAGMA page_size = {_PAGE_SIZE};
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    CREATE TABLE rows (cell BLOB, subkey BLOB, replaces INT, weight INT, checksum INT, data BLOB);
    CREATE TABLE hides (cell BLOB PRIMARY KEY, cleared INT, checksum INT, ranges BLOB)
        WITHOUT ROWID;
    CREATE TABLE totals (weight INT, net INT);
"""
_INDEX = "CREATE INDEX places ON rows (cell, subkey, replaces, weight)"
_READ_ROW = "SELECT replaces, data, checksum FROM rows WHERE cell = ? AND subkey = ?"
_READ_HIDES = "SELECT cleared, ranges, checksum FROM hides WHERE cell = ?"
_READ_ALL_ROWS = "SELECT cell, subkey, replaces, data, checksum FROM rows ORDER BY rowid"
_READ_ALL_HIDES = "SELECT cell, cleared, checksum, ranges FROM hides ORDER BY cell"


class TableSegment:
    """A `SegmentReader` of a database; may move between threads, but serves one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # The file never changes, so that no lock need be taken, nor be there to take.
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            self.weight, self.net = self._database.execute("SELECT * FROM totals").fetchone()
            found = self._database.execute("SELECT EXISTS (SELECT * FROM hides)").fetchone()
        except (sqlite3.Error, TypeError) as error:
            raise self._damaged(error) from error
        self._hides_something = bool(found[0])

    def hides(self, cell: bytes) -> Hides | None:
        """What it hides of a cell; None for nothing."""
        if not self._hides_something:
            return None
        try:
            found = self._database.execute(_READ_HIDES, (cell,)).fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return Hides(bool(found[0]), self._ranges(found[1], found[2])) if found else None

    def row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Replaces and data of a row; None if there is no such row."""
        try:
            found = self._database.execute(_READ_ROW, (cell, subkey)).fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return (bool(found[0]), self._checked(found[1], found[2])) if found else None

    def rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Subkey, replaces and data of the rows from `start` to before `end`."""
        found = self._select(
            "subkey, replaces, data, checksum", "ORDER BY subkey", cell, start, end
        )
        for subkey, replaces, data, checksum in found:
            yield subkey, bool(replaces), self._checked(data, checksum)

    def weights(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """As `rows`, with the weight of the row in place of its data."""
        return self._select("subkey, replaces, weight", "ORDER BY subkey", cell, start, end)

    def weight_between(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """The sum of these weights."""
        ((weight,),) = self._select("IFNULL(SUM(weight), 0)", "", cell, start, end)
        return int(weight)

    def entries(self) -> Iterator[Entry]:
        """All entries in order."""
        return heapq.merge(self._hides_entries(), self._row_entries())

    def close(self) -> None:
        """Gives the file back; iterators in use end with an error."""
        self._database.close()

    def _select(
        self, columns: str, order: str, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[Any]:
        query = f"SELECT {columns} FROM rows WHERE cell = ? AND subkey >= ?"
        if end is None:
            return self._steps(f"{query} {order}", (cell, start))
        return self._steps(f"{query} AND subkey < ? {order}", (cell, start, end))

    def _hides_entries(self) -> Iterator[Entry]:
        for cell, cleared, checksum, ranges in self._steps(_READ_ALL_HIDES, ()):
            yield cell, HIDES, b"", bool(cleared), self._ranges(ranges, checksum)

    def _row_entries(self) -> Iterator[Entry]:
        for cell, subkey, replaces, data, checksum in self._steps(_READ_ALL_ROWS, ()):
            yield cell, ROW, subkey, bool(replaces), self._checked(data, checksum)

    def _steps(self, query: str, bounds: tuple[bytes, ...]) -> Iterator[Any]:
        try:
            yield from self._database.execute(query, bounds)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _ranges(self, data: bytes, checksum: int) -> tuple[Range, ...]:
        self._checked(data, checksum)
        return pickle.loads(data)

    def _checked(self, data: bytes | None, checksum: int) -> bytes | None:
        if data is not None and zlib.crc32(data) != checksum:
            raise SegmentError(self._path, "is damaged: the checksum of a row is not that it has")
        return data

    def _damaged(self, error: Exception) -> SegmentError:
        return SegmentError(self._path, f"is damaged: {error}")


def write_table(path: Path, entries: Iterable[Entry], net: int | None) -> None:
    """Writes the entries, which are in order, into an empty file that is there.

    `net` is `SegmentReader.net`, None if the segment is all that there is.
    """
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(_SCHEMA)
        database.execute("BEGIN")
        weight = 0

        def rows() -> Iterator[tuple[Any, ...]]:
            nonlocal weight
            for cell, kind, subkey, flag, payload in entries:
                if kind == HIDES:
                    ranges = pickle.dumps(payload)
                    values = (cell, flag, zlib.crc32(ranges), ranges)
                    database.execute("INSERT INTO hides VALUES (?, ?, ?, ?)", values)
                    continue
                size = weight_of(subkey, payload)
                weight += size or 0
                checksum = None if payload is None else zlib.crc32(payload)
                yield cell, subkey, flag, size, checksum, payload

        database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows())
        database.execute(_INDEX)
        totals = (weight, weight if net is None else net)
        database.execute("INSERT INTO totals VALUES (?, ?)", totals)
        database.execute("COMMIT")
    finally:
        database.close()
