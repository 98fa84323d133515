"""Transfer of a bundle's files to and from the store: input files are fetched before the bundle
runs, and output files are stored before the reply is sent.
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
from beam_runner_storage.unavailable import ExternalSystemUnavailable

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
    """Fetcher of the files that the bundles of a worker process read, and uploader of the files
    that the bundles write. Not thread-safe.

    Args:
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

    def record_order_files(self, order: RunBundle | RunLoop) -> None:
        """Records that the state files of a new order are already in the store. If the order is for
        a scheduler loop, fetches the initial state.

        Raises:
            OSError: The initial state of a loop can't be fetched.
            ExternalSystemUnavailable: The initial state can't be fetched, because the store or disk
                stayed unavailable.
        """
        if isinstance(order, RunBundle):
            self._known = {segment.path for segment in order.state}
        else:
            self._known = {s.path for segments in order.segments.values() for s in segments}
        self._in_loop = isinstance(order, RunLoop)
        # The scheduler loop in this process can read its state and its output again at any time, so
        # the cache must retain these files.
        held = frozenset(self._known) if self._in_loop else frozenset()
        self._wait(lambda: self._cache.fetch_files(held))

    def fetch_inputs(self, order: RunBundle) -> None:
        """Fetches all files that a bundle can read.

        Raises:
            OSError: The files can't be fetched.
            ExternalSystemUnavailable: The files can't be fetched, because the store or disk stayed
                unavailable.
        """
        self._stage = order.bundle.stage
        self._wait(lambda: self._cache.fetch_referenced_files(_list_input_files(order)))

    def persist_reply(self, reply: BundleReply | BundleFailure) -> BundleReply | BundleFailure:
        """Stores the files of a reply, and returns the reply. If the files can't be stored, returns
        the record of the failure.

        If no store is configured, the failure is permanent. The record of the failure then names the
        step, in the same way as for errors in user code.
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
            except (OSError, ExternalSystemUnavailable) as error:
                return describe_failed_attempt(reply.attempt, error, self._cache.folder)
        return reply

    def persist_before_send(
        self, send: Callable[[LoopMessage], None]
    ) -> Callable[[LoopMessage], None]:
        """Returns a function that stores the files to which a message of the scheduler loop refers,
        and then sends the message.
        """

        def persist_and_send(message: LoopMessage) -> None:
            self.persist_entries(message.entries)
            send(message)

        return persist_and_send

    def persist_entries(self, entries: Iterable[Entry]) -> None:
        """Stores the files that journal entries refer to, and waits for the completion.

        Raises:
            OSError: The files can't be stored.
            ExternalSystemUnavailable: The files can't be stored, because the store or disk stayed
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
