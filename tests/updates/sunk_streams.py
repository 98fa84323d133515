"""Stream of numbers into a database, with a stateful step before the sink, which updates edit."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_spark_io import WriteExactlyOnce
from beam_spark_io.exactly_once.protocols import CommitId
from beam_spark_io.sql.sink import SqlCommitter, SqlSink
from offsets import WATERMARK, Offsets

KEYS = 5
COLUMNS = ("number", "position")
_ENDLESS = 10**9


@attrs.frozen
class SunkStream:
    """Folder of a stream, with the database and the staged files."""

    folder: str

    @classmethod
    def create(cls, folder: Path) -> SunkStream:
        """Creates the database."""
        stream = cls(str(folder))
        with stream.connect() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE numbers (number INTEGER, position INTEGER)")
        return stream

    def connect(self) -> sqlite3.Connection:
        """Returns a connection to the database."""
        file = Path(self.folder) / "numbers.db"
        return sqlite3.connect(file, timeout=60, check_same_thread=False)

    def read(self, query: str = "SELECT number, position FROM numbers") -> list[Any]:
        """Returns rows of the database."""
        with self.connect() as connection:
            return connection.execute(query).fetchall()


class _DrainedOffsets(Offsets):
    """Restriction provider that a drain ends."""

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        return None


class ReadNumbers(beam.DoFn):
    """Source of numbers that a drain ends, with 20 numbers in each bundle, about 200 per second."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(_DrainedOffsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        for _ in range(20):
            if not tracker.try_claim(number):
                return
            estimator.set_watermark(Timestamp(number))
            yield TimestampedValue(number, number)
            number += 1
        tracker.defer_remainder(Duration.of(0.1))


class StagingSqlSink(SqlSink):
    """Sink with writers, which store rows in files, and whose commits move the rows to the database."""

    def __init__(self, stream: SunkStream) -> None:
        super().__init__(stream.connect, "sqlite", "numbers", COLUMNS, (), 1)
        self._folder = Path(stream.folder)

    def select_shard(self, element: Any) -> int:
        return 0

    def create_writer(self, run: str) -> StagingWriter:
        return StagingWriter(self._folder / f"{run}-{uuid.uuid4().hex}.jsonl")

    def create_committer(self, run: str, shard: int) -> Any:
        return StagingCommitter(super().create_committer(run, shard))


class StagingWriter:
    """Writer of one bundle, which stores its rows in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def write(self, element: dict[str, int]) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(element) + "\n")

    def close(self) -> Iterable[str]:
        return [str(self._file)]


class StagingCommitter:
    """Committer that reads the rows of files."""

    def __init__(self, committer: SqlCommitter) -> None:
        self._committer = committer

    def commit(self, commit_id: CommitId, elements: Sequence[str]) -> int:
        rows = [json.loads(row) for file in elements for row in Path(file).read_text().splitlines()]
        return self._committer.commit(commit_id, rows)

    def close(self) -> None:
        self._committer.close()


class CountByKey(beam.DoFn):
    """DoFn that adds the position of a number among the numbers of its key."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self,
        element: tuple[int, int],
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[dict[str, int]]:
        position = count.read() or 0
        count.write(position + 1)
        yield {"number": element[1], "position": position}


def create_sink(stream: SunkStream, kind: str, shards: int = 2) -> Any:
    """Returns a sink that commits elements (``elements``), or the files of writers (``files``)."""
    if kind == "files":
        return StagingSqlSink(stream)
    return SqlSink(stream.connect, "sqlite", "numbers", COLUMNS, (), shards)


def build(
    pipeline: beam.Pipeline,
    sink: Any,
    *,
    name: str = "Count",
    inserted: int = 0,
    every: int | None = None,
) -> None:
    """Builds a version of the stream, with a sink that fuses with the stateful step.

    Args:
        name: name of the stateful step.
        inserted: number of stateless steps between the stateful step and the sink.
        every: seconds between two commits.
    """
    rows = (
        pipeline
        | "Begin" >> beam.Create([_ENDLESS])
        | "Read" >> beam.ParDo(ReadNumbers()).with_output_types(int)
        | "Key" >> beam.Map(lambda n: (n % KEYS, n)).with_output_types(tuple[int, int])
        | name >> beam.ParDo(CountByKey())
    )
    for number in range(inserted):
        rows = rows | f"Inserted {number}" >> beam.Map(lambda row: row)
    _ = rows | "Write" >> WriteExactlyOnce(sink, every)
