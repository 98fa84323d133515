"""Sinks on this machine under test, with the functions that read what the sinks have written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from apache_beam.transforms.window import WindowFn
from beam_spark_io.files.sink import FileSink, name_window
from beam_spark_io.sql.sink import SqlSink
from crashing_sinks import PROBABILITY
from streams_into_sinks import WINDOWS

_COLUMNS = ("source", "number")


@attrs.frozen
class SinkUnderTest:
    """Sink with its reader and the interval of its commits.

    Attributes:
        make: makes the sink in a folder.
        read: reads all written numbers, as pairs of a source and a number.
        every: seconds between commits.
        name_window: function that names windows; None ignores windows.
        probability: probability of a crash before, and of a crash after, each commit.
        check: checks what else is in the folder, after the end of the stream.
    """

    make: Callable[[Path], Any]
    read: Callable[[Path], list[tuple[int, int]]]
    every: int | None = None
    name_window: Callable[[Any], str] | None = None
    probability: float = PROBABILITY
    check: Callable[[Path], None] = lambda _: None


def make_sql_sink(folder: Path, kind: type[SqlSink] = SqlSink) -> SqlSink:
    file = folder / "numbers.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (source INTEGER, number INTEGER)")
    connect = partial(sqlite3.connect, file, timeout=30, check_same_thread=False)
    return kind(connect, "sqlite", "numbers", _COLUMNS, (), 3)


def read_sql(folder: Path) -> list[tuple[int, int]]:
    with sqlite3.connect(folder / "numbers.db") as connection:
        return connection.execute("SELECT source, number FROM numbers").fetchall()


def read_files(folder: Path) -> list[tuple[int, int]]:
    lines = [
        json.loads(line)
        for file in folder.rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return [(line["source"], line["number"]) for line in lines]


def check_windows(folder: Path) -> None:
    """Checks that each window has its elements, one ``_SUCCESS`` file after all others, and no orphan."""
    windows = [window for window in folder.iterdir() if window.name[0] not in "_."]
    assert len(windows) > 3
    for window in windows:
        files = sorted(window.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        assert files[-1].name == "_SUCCESS", files
        assert all(file.suffix == ".jsonl" for file in files[:-1]), files
        numbers = [number for _, number in read_files(window)]
        assert {
            name_window(WINDOWS.assign(WindowFn.AssignContext(number))[0]) for number in numbers
        } == {window.name}


SINKS = {
    "sql": SinkUnderTest(make_sql_sink, read_sql),
    "files": SinkUnderTest(lambda folder: FileSink(str(folder), "jsonl", 2), read_files, every=1),
    "windows": SinkUnderTest(
        lambda folder: FileSink(str(folder), "jsonl", 2),
        read_files,
        every=1,
        name_window=name_window,
        check=check_windows,
    ),
}
