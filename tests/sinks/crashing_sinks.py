"""Sinks whose committers kill their own process before or after a commit, and record each call.

Each call appends a line to a file, so that a test sees which commits were repeated. The number of crashes
is limited, because a bundle with many commits would otherwise never end.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from beam_spark_io.exactly_once.protocols import CommitId, CompletingSink, WritingSink
from beam_spark_io.sql.marks import SqlMarks
from beam_spark_io.sql.sink import SqlCommitter, SqlSink

PROBABILITY = 0.05
"""Probability of a crash before, and of a crash after, each commit of a sink with many commits."""


class CrashingSink:
    """Sink around another one.

    Args:
        sink: the sink under test.
        calls: file for the calls of committers.
        crashes: maximum number of crashes.
        probability: probability of a crash before, and of a crash after, each commit.
    """

    def __init__(self, sink: Any, calls: Path, crashes: int, probability: float) -> None:
        self.shards = sink.shards
        self._sink = sink
        self._calls = calls
        self._crash = partial(crash_sometimes, calls, crashes, probability)

    def select_shard(self, element: Any) -> int:
        return int(self._sink.select_shard(element))

    def create_committer(self, run: str, shard: int) -> CrashingCommitter:
        committer = self._sink.create_committer(run, shard)
        return CrashingCommitter(committer, self._calls, self._crash)


class CrashingCompletingSink(CrashingSink):
    """Crashing sink around a sink that completes windows."""

    def complete_window(self, run: str, window: str | None) -> Any:
        self._crash()
        result = self._sink.complete_window(run, window)
        self._crash()
        return result


class CrashingWritingSink(CrashingSink):
    """Crashing sink around a sink that writes before the commit."""

    def create_writer(self, run: str) -> Any:
        return self._sink.create_writer(run)


def wrap_sink(
    sink: Any, calls: Path, crashes: int, probability: float = PROBABILITY
) -> CrashingSink:
    """Returns a crashing sink around a sink, see `CrashingSink`."""
    kind = CrashingSink
    if isinstance(sink, CompletingSink):
        kind = CrashingCompletingSink
    elif isinstance(sink, WritingSink):
        kind = CrashingWritingSink
    return kind(sink, calls, crashes, probability)


class CrashingCommitter:
    """Committer around another one."""

    def __init__(self, committer: Any, calls: Path, crash: Callable[[], None]) -> None:
        self._committer = committer
        self._calls = calls
        self._crash = crash

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        with self._calls.open("a") as calls:
            calls.write(f"{commit_id.run} {commit_id.shard} {commit_id.number}\n")
        self._crash()
        result = self._committer.commit(commit_id, elements)
        self._crash()
        return result

    def close(self) -> None:
        self._committer.close()


def crash_sometimes(calls: Path, crashes: int, probability: float) -> None:
    """Kills this process at random, up to a number of crashes."""
    done = calls.with_suffix(".crashes")
    if random.random() < probability and (not done.exists() or done.stat().st_size < crashes):
        with done.open("a") as file:
            file.write(".")
        os.kill(os.getpid(), signal.SIGKILL)


class CarelessSqlSink(SqlSink):
    """SQL sink that ignores the commit mark, as a control: this sink must write rows twice."""

    def create_committer(self, run: str, shard: int) -> SqlCommitter:
        committer = super().create_committer(run, shard)
        committer._marks.__class__ = CarelessMarks
        return committer


class CarelessMarks(SqlMarks):
    """Commit marks that never report an earlier commit, so that each commit writes its rows."""

    def change(self, commit_id: CommitId) -> bool:
        return True


def count_repeated_commits(calls: Path) -> int:
    """Returns the number of calls that repeated a commit."""
    counts = Counter(calls.read_text().splitlines())
    return sum(counts.values()) - len(counts)
