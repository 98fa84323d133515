"""Files that a reply names are kept before it is sent, and those that an order names are at hand before it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_planner.plan import StagePlan
from beam_runner_storage.stores.ports import NoPlaceError
from beam_runner_storage.unavailable import NeighbourUnavailable

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


class CommittedFiles:
    """The files that a lane's orders and replies name. For one thread at a time.

    Args:
        cache: has the job's files.
        stages: of the job.
        wait: waits for stores and disks that are away.
    """

    def __init__(
        self,
        cache: FileCache,
        stages: Mapping[str, StagePlan],
        wait: Callable[[Callable[[], None]], None] = at_once,
    ) -> None:
        self._cache = cache
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
        self._wait(lambda: self._cache.hold(held))

    def need(self, order: RunBundle) -> None:
        """Has all files at hand that a bundle may read.

        Raises:
            OSError: they can't be had.
            NeighbourUnavailable: they can't be had, after a wait.
        """
        self._stage = order.bundle.stage
        self._wait(lambda: self._cache.need(_read_by(order)))

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
                return broke(reply.attempt, error, self._cache.folder)
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
            self._wait(lambda: self._cache.keep(sorted(new), hold=self._in_loop))
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
