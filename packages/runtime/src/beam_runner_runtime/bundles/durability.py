"""Durability of a bundle's files: they are persisted before the reply that names them, and fetched
before the bundle that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_planner.plan import StagePlan
from beam_runner_storage.stores.ports import NoStoreError
from beam_runner_storage.unavailable import NeighbourUnavailable

from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.bundles.neighbour_wait import call_without_retry
from beam_runner_runtime.channel.attempts import BundleFailure, UserFailure
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
    """Files that a lane's bundles read and write: fetched before a bundle, persisted before its reply. Not thread-safe.

    Args:
        cache: file cache of the job.
        stages: stages of the job.
        wait: function that retries while stores and disks are unavailable.
    """

    def __init__(
        self,
        cache: FileCache,
        stages: Mapping[str, StagePlan],
        wait: Callable[[Callable[[], None]], None] = call_without_retry,
    ) -> None:
        self._cache = cache
        self._stages = stages
        self._wait = wait
        self._stage = ""
        self._known: set[str] = set()
        self._in_loop = False

    def begin_order(self, order: RunBundle | RunLoop) -> None:
        """Records the state files that an order names, because these files are already committed.

        Raises:
            OSError: The initial state of a loop can't be fetched.
            NeighbourUnavailable: The initial state can't be fetched because the neighbour stayed
                unavailable.
        """
        if isinstance(order, RunBundle):
            self._known = {segment.path for segment in order.state}
        else:
            self._known = {s.path for segments in order.segments.values() for s in segments}
        self._in_loop = isinstance(order, RunLoop)
        # A loop can read its state and its own output again at any time, so the cache must retain
        # them.
        held = frozenset(self._known) if self._in_loop else frozenset()
        self._wait(lambda: self._cache.fetch_files(held))

    def fetch_inputs(self, order: RunBundle) -> None:
        """Fetches all files that a bundle can read.

        Raises:
            OSError: The files can't be fetched.
            NeighbourUnavailable: The files can't be fetched because the neighbour stayed
                unavailable.
        """
        self._stage = order.bundle.stage
        self._wait(lambda: self._cache.fetch_references(_list_input_files(order)))

    def persist_reply(self, reply: BundleReply | BundleFailure) -> BundleReply | BundleFailure:
        """Returns the reply after its files are persisted, or the record of a failure to persist them.

        If the job has no location for such files, the failure is permanent. The record then names
        the step, as for errors of user code.
        """
        if isinstance(reply, BundleReply):
            try:
                self.persist_entries((reply,))
            except NoStoreError as error:
                has_state = reply.state is not None and reply.state.segments
                reason = NoStoreError(_STATE) if has_state else error
                name = self._stages[self._stage].spec.name
                failure = UserFailure(name, str(reason), "")
                return BundleFailure(reply.attempt, failure, kind=FailureKind.PERMANENT)
            except (OSError, NeighbourUnavailable) as error:
                return describe_failed_attempt(reply.attempt, error, self._cache.folder)
        return reply

    def persist_before_send(
        self, send: Callable[[LoopMessage], None]
    ) -> Callable[[LoopMessage], None]:
        """Returns a send function that persists the files of a loop's message before it sends the message."""

        def send_synced(message: LoopMessage) -> None:
            self.persist_entries(message.entries)
            send(message)

        return send_synced

    def persist_entries(self, entries: Iterable[Entry]) -> None:
        """Waits until the files that entries name are persisted.

        Raises:
            OSError: The files can't be persisted.
            NeighbourUnavailable: The files can't be persisted because the neighbour stayed
                unavailable.
        """
        new = {path for entry in entries for path in _list_output_files(entry)} - self._known
        if new:
            self._wait(lambda: self._cache.persist_files(sorted(new), hold=self._in_loop))
            self._known |= new


def _list_input_files(order: RunBundle) -> Iterator[FileRows | Segment]:
    yield from order.state
    inputs = (one.data for one in order.bundle.inputs)
    for data in chain(inputs, *(side.data for side in order.bundle.side_inputs)):
        if isinstance(data.ref, FileRows):
            yield data.ref


def _list_output_files(entry: Entry) -> Iterator[str]:
    if isinstance(entry, BundleReply):
        for output in entry.done.outputs:
            if isinstance(output.data.ref, FileRows):
                yield output.data.ref.path
        if entry.state is not None:
            for segment in entry.state.segments:
                yield segment.path
