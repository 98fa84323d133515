"""What this package asks of its host, and the one face that both harnesses show to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from beam_runner_worker.records import (
    BundleResult,
    InputChunk,
    LogRecord,
    MonitoringInfo,
    OutputChunk,
    StageSpec,
)


class OutputPort(Protocol):
    """Where one output edge's data goes."""

    def write(self, chunk: OutputChunk) -> None:
        """Takes a chunk of the kind that the edge asked for; may block while the host is busy."""


class SideInputReader(Protocol):
    """Gives the side inputs of one stage; everything is there before a bundle starts.

    Windows are encoded by the window coder of the side input's PCollection. A window or key
    that holds nothing gives empty bytes. Values and keys are nested encodings, concatenated.
    """

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        """All elements of a window (access pattern ``beam:side_input:iterable:v1``)."""

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        """All values of a key in a window (``beam:side_input:multimap:v1``)."""

    def keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        """The distinct keys of a window, in a fixed order."""

    def groups(
        self, transform_id: str, tag: str, window: bytes
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """Each key of a window with the number and the bytes of its values."""


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
        self, bundle_id: str, inputs: Iterable[InputChunk], outputs: Mapping[str, OutputPort]
    ) -> BundleResult:
        """Processes one bundle to its end.

        ``inputs`` is pulled as the bundle proceeds. ``outputs`` has a port for every output edge
        by its transform id. All writes have happened when this returns.

        Raises:
            BundleFailed: user code or the SDK raised; the harness stays usable for a new bundle
                unless the error says otherwise.
        """

    def progress(self) -> tuple[MonitoringInfo, ...]:
        """Metrics of the running bundle so far; empty between bundles; from any thread."""


class Harness(Protocol):
    """A way to run stages: embedded in this process, or an SDK over the Fn API."""

    def stage(self, spec: StageSpec, side_inputs: SideInputReader) -> StageHarness:
        """The stage's harness, built on first use and kept; ``side_inputs`` is fixed by then."""

    def close(self) -> None:
        """Tears down every DoFn instance once and stops what was started; idempotent.

        Never raises: an error in user code's teardown goes to the log.
        """
