"""Files that a reply names are on the disk before it is sent, so that its commit survives the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from beam_spark_executor.channel.messages import (
    Attempt,
    BundleBroke,
    BundleReply,
    Entry,
    LoopProgress,
    LoopReply,
    RunBundle,
    RunLoop,
)
from beam_spark_executor.storage.refs import FileRows
from beam_spark_executor.task.bundle import broke

LoopMessage: TypeAlias = LoopProgress | LoopReply

_AT_ONCE = 8
"""File systems write down together what several ask for at the same time."""


class DurableFiles:
    """The files of a job that are on the disk, as far as a lane must know. For one thread at a time.

    Args:
        folder: the job's.
        durable: whether files are to be on the disk at all; else nothing is done.
    """

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        self._known: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, order: RunBundle | RunLoop) -> None:
        """What an order names was committed before."""
        if isinstance(order, RunBundle):
            self._known = {segment.path for segment in order.state}
        else:
            self._known = {s.path for segments in order.segments.values() for s in segments}

    def synced(self, reply: BundleReply | BundleBroke) -> BundleReply | BundleBroke:
        """The reply, once what it names is on the disk; or that it could not be written."""
        if isinstance(reply, BundleReply):
            try:
                self.sync((reply,))
            except OSError as error:
                return broke(Attempt(reply.done.bundle, reply.done.attempt), error)
        return reply

    def before(self, send: Callable[[LoopMessage], None]) -> Callable[[LoopMessage], None]:
        """Has what a loop tells sent when what it names is on the disk."""

        def send_synced(message: LoopMessage) -> None:
            self.sync(message.entries)
            send(message)

        return send_synced

    def sync(self, entries: Iterable[Entry]) -> None:
        """Waits until the files that entries name, and their names, are on the disk.

        Raises:
            OSError: they can't be written.
        """
        if not self._durable:
            return
        new = {path for entry in entries for path in _files(entry)} - self._known
        if not new:
            return
        paths = [self._folder / path for path in sorted(new)]
        if len(paths) == 1:
            _sync(paths[0])
        else:
            self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE, "sync")
            for _ in self._pool.map(_sync, paths):
                pass
        for folder in {path.parent for path in paths}:
            _sync(folder)
        self._known |= new


def _files(entry: Entry) -> Iterator[str]:
    if isinstance(entry, BundleReply):
        for output in entry.done.outputs:
            if isinstance(output.data.ref, FileRows):
                yield output.data.ref.path
        if entry.state is not None:
            for segment in entry.state.segments:
                yield segment.path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
