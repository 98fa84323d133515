"""What this package asks of its host, and the one face that both harnesses show to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from beam_runner_model.bundles import BundleProgress, BundleResult, BundleSplit
from beam_runner_model.chunks import InputChunk, OutputChunk, StageTimer, StateCell
from beam_runner_model.stages import HarnessStage
from beam_runner_model.value_pieces import ValuePieces

from beam_runner_worker.log_records import LogRecord


class OutputPort(Protocol):
    """Where one output edge's data goes."""

    def write(self, chunk: OutputChunk) -> None:
        """Takes a chunk of the kind that the edge asked for; may block while the host is busy."""


class SideInputReader(Protocol):
    """Gives the side inputs of one stage; everything is there before a bundle starts.

    A harness may keep what it has read, also over bundles, while ``version`` stays the same.

    Windows are encoded by the window coder of the side input's PCollection. A window or key
    that holds nothing gives empty bytes. Values and keys are nested encodings, concatenated; what
    is too much to be held as one ``bytes`` comes in pieces, each read when it is asked for, in the
    same order every time.
    """

    def version(self, transform_id: str, tag: str) -> int:
        """A number that changes, between bundles only, when what is there to read has changed."""

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """All elements of a window (access pattern ``beam:side_input:iterable:v1``).

        The length of what comes in pieces is an upper bound.
        """

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes | ValuePieces:
        """All values of a key in a window (``beam:side_input:multimap:v1``)."""

    def keys(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """The distinct keys of a window, in a fixed order."""

    def groups(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Each key of a window, the number of its values (four bytes, big-endian) and its values.

        That is ``KV<K, Iterable<V>>``, encoded; a group is in one piece.
        """


class UserState(Protocol):
    """State and timers of a stateful stage, for one bundle (``beam_fn_api.proto``, ``StateKey``).

    Called from the thread that processes the bundle, or one at a time. Changes are the bundle's
    own until it is committed, and seen by what it reads later. Values are encoded by user code's
    coders and never looked into.
    """

    def bag(self, cell: StateCell) -> bytes:
        """All values of a bag (also behind value and combining state), concatenated, in order."""

    def append(self, cell: StateCell, values: bytes) -> None:
        """Appends encoded values to a bag."""

    def replace(self, cell: StateCell, values: bytes) -> None:
        """Makes these encoded values all that a bag has."""

    def clear(self, cell: StateCell) -> None:
        """Removes everything from a cell of any kind."""

    def map_keys(self, cell: StateCell) -> bytes:
        """The keys of a multimap, encoded and concatenated, each once."""

    def map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        """All values of one key of a multimap, concatenated, in order."""

    def map_append(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        """Appends encoded values to one key of a multimap."""

    def map_remove(self, cell: StateCell, map_key: bytes) -> None:
        """Removes one key of a multimap."""

    def ordered(self, cell: StateCell, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Sort keys from ``start`` to before ``end`` with one encoded value each, ascending."""

    def ordered_insert(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        """Adds an encoded value to an ordered list; equal sort keys keep their order."""

    def ordered_remove(self, cell: StateCell, start: int, end: int) -> None:
        """Removes the sort keys from ``start`` to before ``end``."""

    def set_timer(self, timer: StageTimer) -> None:
        """Sets a timer, or clears it.

        Raises:
            TimerRefused: user code must not set it.
        """


class ArtifactReader(Protocol):
    """Reads staged files by content hash."""

    def read(self, sha256: str) -> Iterator[bytes]:
        """The file in pieces of at most 1 MiB.

        Raises:
            KeyError: no such artifact belongs to the job.
        """


class LogSink(Protocol):
    """Takes what user code and SDKs log; called from any thread; never blocks for long."""

    def log(self, records: Iterable[LogRecord]) -> None:
        """Takes records in the order of their times."""


class StageHarness(Protocol):
    """One stage, ready to process bundles in this process: one at a time, from one thread."""

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[InputChunk],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        """Processes one bundle to its end.

        ``state`` is given for a stage that begins with a stateful transform: elements come one
        window each, then timers. After a :class:`~beam_runner_model.bundles.Settle` the next
        chunk is asked for only when all before it is processed and its timers have been set.

        ``inputs`` is pulled as the bundle proceeds. ``outputs`` has a port for every output edge
        by its transform id. All writes have happened when this returns. What splittable DoFns
        defer comes back in the result's ``residuals``; it is not resumed here.

        Raises:
            BundleFailed: user code or the SDK raised; the harness stays usable for a new bundle
                unless the error says otherwise.
        """

    def progress(self) -> BundleProgress | None:
        """How far the running bundle is, or that its SDK harness still starts; None between bundles. From any thread."""

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Lets the running bundle give away part of what it has not done yet. From any thread.

        Every residual, and every element from ``first_residual`` on, is the caller's from then on:
        the bundle will not process it. Answers within seconds, also while user code is busy.

        Args:
            keep: the fraction of the remainder that the bundle keeps
                (``fraction_of_remainder``): 0 is a checkpoint, as soon as the SDK can.
            elements: how many input elements the bundle is given in all.
            points: the only numbers that ``first_residual`` may be, ascending, and no element is
                split in itself (``allowed_split_points``); if there are none, any may be.

        Returns:
            What became of it; None if there is no bundle or nothing can be given away now.

        Raises:
            HarnessError: the SDK is lost; the bundle's own thread gets the same error.
        """

    def finalize(self, bundle_id: str) -> None:
        """Runs the finalization callbacks of a bundle that has been committed. From any thread.

        A callback that raises, or that has expired, goes to the log. Does nothing for a bundle
        that registered none, or that this harness does not know.
        """


class Harness(Protocol):
    """A way to run stages: embedded in this process, or an SDK over the Fn API."""

    def stage(self, spec: HarnessStage, side_inputs: SideInputReader) -> StageHarness:
        """The stage's harness, built on first use and kept; ``side_inputs`` is fixed by then."""

    def close(self) -> None:
        """Tears down every DoFn instance once and stops what was started; idempotent.

        Never raises: an error in user code's teardown goes to the log.
        """
