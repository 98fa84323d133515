"""Sink in memory that counts what it gets, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from beam_spark_io.exactly_once.protocols import (
    CommitId,
    CommitMark,
    SinkUnavailable,
    is_committed,
)


class ToySystem:
    """External system: committed elements, and the commit mark (number of the last commit) of each
    shard.
    """

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.marks: dict[tuple[str, int], CommitMark] = {}
        self.outages = 0
        """Number of the next calls that find the system unavailable."""
        self.closed = 0
        self.fails_to_close = False


class ToySink:
    """Sink with numbers as elements.

    Args:
        system: the external system.
        shards: number of shards.
    """

    def __init__(self, system: ToySystem, shards: int = 2) -> None:
        self.shards = shards
        self._system = system

    def select_shard(self, element: Any) -> int:
        return int(element[0] if isinstance(element, tuple) else element) % self.shards

    def create_committer(self, run: str, shard: int) -> ToyCommitter:
        return ToyCommitter(self._system)


class StagingSink(ToySink):
    """Toy sink whose writers stage the elements of a bundle."""

    def create_writer(self, run: str) -> ToyWriter:
        return ToyWriter()


class ToyWriter:
    """Writer that collects the numbers of a bundle."""

    def __init__(self) -> None:
        self._staged: list[int] = []

    def write(self, element: int) -> None:
        self._staged.append(element)

    def close(self) -> Iterable[tuple[int, ...]]:
        return [tuple(self._staged)]


class ToyCommitter:
    """Committer of a shard."""

    def __init__(self, system: ToySystem) -> None:
        self._system = system

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> int:
        if self._system.outages:
            self._system.outages -= 1
            raise SinkUnavailable("the toy is away")
        place = commit_id.run, commit_id.shard
        if not is_committed(commit_id, self._system.marks.get(place, CommitMark())):
            self._system.elements += elements
            self._system.marks[place] = CommitMark(commit_id.number, commit_id.digest)
        return len(elements)

    def close(self) -> None:
        self._system.closed += 1
        if self._system.fails_to_close:
            raise ConnectionError("the connection is lost")
