"""The interfaces that this package requires from the runner, and the common interface of the embedded
harness and the Fn API harness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from beam_runner_model.bundles import BundleProgress, BundleResult, BundleSplit
from beam_runner_model.chunks import InputChunk, OutputChunk, StageTimer, StateCell
from beam_runner_model.stages import HarnessStage
from beam_runner_model.value_pieces import ValuePieces

from beam_runner_worker.log_records import LogRecord


class OutputPort(Protocol):
    """Destination for the data of one output of a stage."""

    def write(self, chunk: OutputChunk) -> None:
        """Writes a chunk of the kind that the output edge requires. May block while the runner is busy."""


class SideInputReader(Protocol):
    """Reader of the side inputs of one stage. All data is complete before a bundle starts.

    A harness may cache data, also across bundles, while the result of ``get_version`` stays the
    same.

    The window coder of the side input's PCollection encodes the windows. A window or key without
    data returns empty bytes. Values and keys are nested encodings, concatenated. Data that is too
    large for one ``bytes`` is returned as `ValuePieces`. Each part of the data is read on demand,
    in the same order every time.
    """

    def get_version(self, transform_id: str, tag: str) -> int:
        """Returns the version of a side input's data. The version changes only between bundles, and
        only if the data has changed.
        """

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Returns all elements of a window (access pattern ``beam:side_input:iterable:v1``).

        If the result is a `ValuePieces`, its length is an upper bound.
        """

    def read_values(
        self, transform_id: str, tag: str, window: bytes, key: bytes
    ) -> bytes | ValuePieces:
        """Returns all values of a key in a window (``beam:side_input:multimap:v1``)."""

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Returns the distinct keys of a window, in a fixed order."""

    def read_groups(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Returns each key of a window, with the number of its values (four bytes, big-endian) and its
        values.

        A group has the encoding of ``KV<K, Iterable<V>>``. No part ends inside a group.
        """


class UserState(Protocol):
    """State and timers of a stateful stage, for one bundle (``beam_fn_api.proto``, ``StateKey``).

    The harness calls the methods in the thread that processes the bundle, or one at a time. Changes
    belong to the bundle until its commit, and later reads of the bundle see them. User code's
    coders encode the values, and the runner never decodes them.
    """

    def read_bag(self, cell: StateCell) -> bytes:
        """Returns all values of a bag, concatenated in order. Value state and combining state also use bags."""

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        """Appends encoded values to a bag."""

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        """Replaces the content of a bag with encoded values."""

    def clear_cell(self, cell: StateCell) -> None:
        """Clears a state cell: the user state of any kind for one key and window."""

    def read_map_keys(self, cell: StateCell) -> bytes:
        """Returns the distinct keys of a multimap, encoded and concatenated."""

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        """Returns all values of one key of a multimap, concatenated, in order."""

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        """Appends encoded values to one key of a multimap."""

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        """Removes one key of a multimap."""

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yields the pairs of sort key and encoded value from ``start`` to before ``end``, ascending."""

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        """Adds an encoded value to an ordered list; equal sort keys keep their order."""

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        """Removes the values with a sort key from ``start`` to before ``end``."""

    def set_timer(self, timer: StageTimer) -> None:
        """Sets a timer, or clears the timer if it has no firing time.

        Raises:
            TimerRefused: User code must not set the timer.
        """


class ArtifactReader(Protocol):
    """Reader of staged files, which are addressed by content hash."""

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        """Yields the file in chunks of at most 1 MiB.

        Raises:
            KeyError: The job has no such artifact.
        """


class LogSink(Protocol):
    """Receiver of the logs of user code and SDKs; thread-safe, and never blocks for long."""

    def log_records(self, records: Iterable[LogRecord]) -> None:
        """Receives log records in the order of their times."""


class StageHarness(Protocol):
    """Harness of one stage, which processes bundles of the stage one at a time, in the caller's thread."""

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[InputChunk],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        """Processes one bundle completely.

        ``state`` is present if the stage starts with a stateful transform. Elements of a stateful
        transform arrive in one window each, followed by timers. After a :class:`~beam_runner_model.chunks.FlushBarrier`, the
        harness requests the next chunk only after it has processed all earlier chunks and set their
        timers.

        The harness reads ``inputs`` as the bundle proceeds. ``outputs`` has a port for every output
        edge, by transform ID. All writes are finished when this method returns. The result's
        ``residuals`` contain the deferred elements of splittable DoFns, which the harness doesn't
        resume.

        Raises:
            BundleError: User code or the SDK raised an exception. The harness stays usable for a
                new bundle unless the error says otherwise.
        """

    def get_progress(self) -> BundleProgress | None:
        """Returns the progress of the running bundle, or a record that says that the SDK harness is
        starting; None if no bundle is running. Thread-safe.
        """

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Splits the running bundle: removes part of its unprocessed input, and returns the removed
        part. Thread-safe.

        The caller owns every residual, and every element from ``first_residual`` on, which the
        bundle will not process. The method returns within seconds, even while user code is busy.

        Args:
            keep: fraction of the remainder that the bundle retains (``fraction_of_remainder``): 0
                is a checkpoint, as soon as the SDK can.
            elements: total number of input elements of the bundle.
            points: allowed values of ``first_residual``, ascending, and no element is split
                internally (``allowed_split_points``); if empty, any value is allowed.

        Returns:
            The split; None without a bundle, or if the bundle can't be split now.

        Raises:
            HarnessError: The connection to the SDK is lost; the bundle's own thread gets the same
                error.
        """

    def finalize_bundle(self, bundle_id: str) -> None:
        """Runs the finalization callbacks of a committed bundle. Thread-safe.

        Errors of a callback, and expired callbacks, are logged. The method does nothing for a
        bundle without callbacks or an unknown bundle.
        """


class Harness(Protocol):
    """Harness that runs stages, either embedded in this process or in an SDK over the Fn API."""

    def get_stage_harness(self, spec: HarnessStage, side_inputs: SideInputReader) -> StageHarness:
        """Returns the harness of a stage. The harness is created on first use and cached, so later
        calls ignore ``side_inputs``.
        """

    def close(self) -> None:
        """Tears down every DoFn instance once and stops all started processes; idempotent.

        Never raises: errors of user code's teardown are logged.
        """
