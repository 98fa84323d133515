"""Stream of :mod:`keyed_counts` in Spark alone: lines of a socket, counted by `transformWithState` in
Python.

The query has two shuffle partitions and RocksDB as state store, which `transformWithState`
requires; other settings are Spark's defaults.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyed_counts import KEYS, PAUSE, WARM, of_key
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from targets import Failed, Outcome

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOOK_SECONDS = 0.05
_LINES = 1_000
"""Number of lines in one send without a pause."""
_RESULT = "key long, count long"


class Feeder:
    """Listens at a port, and sends the numbers to who connects first."""

    def __init__(self, elements: int, pause: float) -> None:
        self._elements, self._pause = elements, pause
        self._listener = socket.create_server(("localhost", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Does not wait for who might still connect."""
        self._listener.close()

    def _feed(self) -> None:
        try:
            reader, _ = self._listener.accept()
            at_once = 1 if self._pause else _LINES
            with reader:
                for start in range(0, self._elements, at_once):
                    numbers = range(start, min(start + at_once, self._elements))
                    lines = (f"{n % KEYS} {n} {time.time()!r}\n" for n in numbers)
                    reader.sendall("".join(lines).encode())
                    time.sleep(self._pause)
        except OSError:
            # The query has ended, or has never started: the wait for its end reports the cause.
            return


class CountRows(StatefulProcessor):
    """Counts the rows of a key, and writes down how late each was."""

    def __init__(self, folder: Path) -> None:
        self._latencies, self._counts = str(folder / "latencies"), str(folder / "counts")

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before any other method."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        """Called by Spark with the rows of a key in a micro-batch."""
        so_far = self._count.get()[0] if self._count.exists() else 0
        late = []
        for number, given in self._read(rows):
            so_far += 1
            if number >= WARM:
                late.append(time.time() - given)
        self._count.update((so_far,))
        for path, told in ((self._latencies, late), (self._counts, (key[0], so_far))):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
        yield self._result(key[0], so_far)

    def _read(self, rows: Any) -> Iterator[tuple[int, float]]:
        return ((row.number, row.given) for row in rows)

    def _result(self, key: int, count: int) -> Any:
        return Row(key=key, count=count)


class CountFrames(CountRows):
    """Version of `CountRows` for rows in pandas DataFrames."""

    def _read(self, rows: Any) -> Iterator[tuple[int, float]]:
        for frame in rows:
            yield from zip(frame["number"].tolist(), frame["given"].tolist(), strict=True)

    def _result(self, key: int, count: int) -> Any:
        import pandas as pd

        return pd.DataFrame({"key": [key], "count": [count]})


def run_by_spark(name: str, elements: int, flags: tuple[str, ...], folder: str) -> Outcome:
    """Runs a workload in this process to its end; with the flag ``pandas`` by `transformWithStateInPandas`.

    Raises:
        Failed: it did not end well, or with the wrong result.
    """
    import workloads

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    # Spark's Python workers log each micro-batch; the exception reports a failure.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    private = Path(folder) / uuid.uuid4().hex
    private.mkdir()
    feeder = Feeder(elements, PAUSE if name == "polling" else 0.0)
    try:
        started = time.perf_counter()
        query = _start(_session(), feeder.port, "pandas" in flags, private)
        _wait_for(query, elements)
        seconds = time.perf_counter() - started
        query.stop()
        _compare(private / "counts", elements)
        return Outcome(seconds, tuple(workloads.latencies(private)))
    except Failed:
        raise
    except Exception as error:
        # Spark's exceptions cannot be sent to another process.
        raise Failed(f"{type(error).__name__}: {error}"[:500]) from None
    finally:
        feeder.close()


def _session() -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": _STORE,
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.log.level": "ERROR",
    }
    return SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()


def _start(session: SparkSession, port: int, is_pandas: bool, private: Path) -> Any:
    source = session.readStream.format("socket").option("host", "localhost").option("port", port)
    fields = ("split(value, ' ')[0]", "split(value, ' ')[1]", "split(value, ' ')[2]")
    names = ("key", "number", "given")
    types = ("long", "long", "double")
    columns = [
        f"cast({field} as {kind}) as {name}"
        for field, kind, name in zip(fields, types, names, strict=True)
    ]
    groups = source.load().selectExpr(*columns).groupBy("key")
    counts = (
        groups.transformWithStateInPandas(CountFrames(private), _RESULT, "Update", "None")
        if is_pandas
        else groups.transformWithState(CountRows(private), _RESULT, "Update", "None")
    )
    sink = counts.writeStream.format("noop").outputMode("update")
    return sink.option("checkpointLocation", str(private / "checkpoint")).start()


def _wait_for(query: Any, elements: int) -> None:
    """Waits until micro-batches with this number of rows are committed; the caller limits the time."""
    while sum(progress.numInputRows for progress in query.recentProgress) < elements:
        if not query.isActive:
            raise Failed(f"ended: {query.exception()}"[:500])
        time.sleep(_LOOK_SECONDS)


def _compare(path: Path, elements: int) -> None:
    """Raises if the last counts are wrong."""
    found = dict(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    expected = {key: of_key(key, elements) for key in range(min(KEYS, elements))}
    if found != expected:
        raise Failed(f"expected {elements} numbers, got {sum(found.values())}")
