"""Files that a reply names are kept before it is sent, and those that an order names are at hand before it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias

from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_model.threads import run_together
from beam_runner_planner.plan import StagePlan
from beam_runner_storage.stores.ports import NoPlaceError
from beam_runner_storage.unavailable import NeighbourUnavailable, disk_of

from beam_runner_runtime.bundles.failed_attempts import broke
from beam_runner_runtime.bundles.neighbour_wait import at_once
from beam_runner_runtime.channel.attempts import BundleBroke, UserFailure
from beam_runner_runtime.channel.messages import (
    BundleReply,
    Entry,
    LoopProgress,
    LoopReply,
    RunBundle,
    RunLoop,
)

LoopMessage: TypeAlias = LoopProgress | LoopReply

_STATE = "what is grouped by key, or kept by user code, lies in files between bundles"
_AT_ONCE = 8
"""File systems write down together what several ask for at the same time."""


class FileKeeper(Protocol):
    """Where files lie that a commit may name."""

    def need(self, refs: Iterable[FileRows | Segment]) -> None:
        """Has rows and segments at hand until the next ones are needed.

        It is called for every bundle, and goes through the references only where there is something to do.

        Raises:
            OSError: they can't be had.
            NeighbourUnavailable: they can't be had now.
        """

    def hold(self, names: Collection[str]) -> None:
        """Has files at hand until others are held.

        Raises:
            OSError: they can't be had.
            NeighbourUnavailable: they can't be had now.
        """

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Returns once new files survive what they must survive, and others can have them.

        Args:
            names: relative to the job's folder.
            hold: whether they are held, too, beside what is.

        Raises:
            OSError: they can't be kept.
            NeighbourUnavailable: they can't be kept now.
            NoPlaceError: nor could they be another time.
        """


class SharedFolder:
    """Files in a folder that all machines share (`FileKeeper`).

    Args:
        folder: the job's.
        durable: whether files are to be on the disk at all; else nothing is done.
    """

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        self._durable = durable

    def need(self, refs: Iterable[FileRows | Segment]) -> None:
        """They are there."""

    def hold(self, names: Collection[str]) -> None:
        """They stay."""

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Waits until files, and their names, are on the disk, where that is wanted."""
        if not self._durable:
            return
        paths = [self._folder / name for name in names]
        with disk_of(self._folder):
            run_together(_sync, paths, _AT_ONCE, "sync")
            for folder in {path.parent for path in paths}:
                _sync(folder)


class CommittedFiles:
    """The files that a lane's orders and replies name. For one thread at a time.

    Args:
        keeper: keeps them.
        folder: the folder that they are in here.
        stages: of the job.
        wait: waits for stores and disks that are away.
    """

    def __init__(
        self,
        keeper: FileKeeper,
        folder: Path,
        stages: Mapping[str, StagePlan],
        wait: Callable[[Callable[[], None]], None] = at_once,
    ) -> None:
        self._keeper = keeper
        self._folder = folder
        self._stages = stages
        self._wait = wait
        self._stage = ""
        self._known: set[str] = set()
        self._in_loop = False

    def begin(self, order: RunBundle | RunLoop) -> None:
        """What an order names was committed before.

        Raises:
            OSError: the state that a loop begins with can't be had.
            NeighbourUnavailable: it can't be had, after a wait.
        """
        if isinstance(order, RunBundle):
            self._known = {segment.path for segment in order.state}
        else:
            self._known = {s.path for segments in order.segments.values() for s in segments}
        self._in_loop = isinstance(order, RunLoop)
        # A loop goes back to its state, and to what it writes, as often as it likes.
        held = frozenset(self._known) if self._in_loop else frozenset()
        self._wait(lambda: self._keeper.hold(held))

    def need(self, order: RunBundle) -> None:
        """Has all files at hand that a bundle may read.

        Raises:
            OSError: they can't be had.
            NeighbourUnavailable: they can't be had, after a wait.
        """
        self._stage = order.bundle.stage
        self._wait(lambda: self._keeper.need(_read_by(order)))

    def synced(self, reply: BundleReply | BundleBroke) -> BundleReply | BundleBroke:
        """The reply, once what it names is on the disk; or that it could not be written.

        If no place for it exists at all, the failure is permanent, and the step is named as for user code.
        """
        if isinstance(reply, BundleReply):
            try:
                self.sync((reply,))
            except NoPlaceError as error:
                has_state = reply.state is not None and reply.state.segments
                reason = NoPlaceError(_STATE) if has_state else error
                name = self._stages[self._stage].spec.name
                failure = UserFailure(name, str(reason), "")
                return BundleBroke(reply.attempt, failure, kind=FailureKind.PERMANENT)
            except (OSError, NeighbourUnavailable) as error:
                return broke(reply.attempt, error, self._folder)
        return reply

    def before(self, send: Callable[[LoopMessage], None]) -> Callable[[LoopMessage], None]:
        """Has what a loop tells sent when what it names is on the disk."""

        def send_synced(message: LoopMessage) -> None:
            self.sync(message.entries)
            send(message)

        return send_synced

    def sync(self, entries: Iterable[Entry]) -> None:
        """Waits until the files that entries name are kept.

        Raises:
            OSError: they can't be.
            NeighbourUnavailable: they can't be, after a wait.
        """
        new = {path for entry in entries for path in _files(entry)} - self._known
        if new:
            self._wait(lambda: self._keeper.keep(sorted(new), hold=self._in_loop))
            self._known |= new


def _read_by(order: RunBundle) -> Iterator[FileRows | Segment]:
    yield from order.state
    inputs = (one.data for one in order.bundle.inputs)
    for data in chain(inputs, *(side.data for side in order.bundle.side_inputs)):
        if isinstance(data.ref, FileRows):
            yield data.ref


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
