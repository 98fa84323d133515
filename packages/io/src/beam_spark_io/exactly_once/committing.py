"""Last step of `WriteExactlyOnce`: commits batches to the sink, one after the other for each shard.

The number and the digest of the last commit are Beam state of the shard. The runner commits the state
with the bundle, and the input is stable, so each attempt at a bundle makes the same commit IDs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from beam_spark_io.exactly_once.batches import BatchGroup, decode_batch
from beam_spark_io.exactly_once.patience import wait_for_sink
from beam_spark_io.exactly_once.protocols import (
    CommitConflict,
    CommitId,
    CommitMark,
    Committer,
    CommitWindow,
    ExactlyOnceSink,
)

_NUMBER_BYTES = 8
_DIGEST_BYTES = 16


@attrs.frozen
class CommitResult:
    """Result of a commit, which `WriteExactlyOnce` emits after the commit.

    Attributes:
        run: the write of the job.
        result: the value that the committer returned.
        window: the window of the elements; None if the commits ignore windows.
    """

    run: str
    shard: int
    number: int
    result: Any
    window: CommitWindow | None = None


class CommitBatches(beam.DoFn):
    """DoFn that commits each batch of its shard once.

    Args:
        patience: maximum seconds of one wait for an unavailable sink; None waits without a limit.
    """

    LAST = ReadModifyWriteStateSpec("last", BytesCoder())

    def __init__(self, sink: ExactlyOnceSink[Any], patience: float | None) -> None:
        self._sink = sink
        self._patience = patience

    def setup(self) -> None:
        """Initializes the DoFn without committers."""
        self._committers: dict[tuple[str, int], Committer[Any]] = {}

    def process(
        self,
        element: tuple[int, bytes | Iterable[bytes] | BatchGroup],
        run: str,
        last: Any = beam.DoFn.StateParam(LAST),  # noqa: B008 - Beam reads the default
    ) -> Iterator[CommitResult]:
        """Commits one batch, all batches of one firing, or a group of batches.

        Raises:
            SinkUnavailable: The sink was unavailable for longer than the patience.
            CommitConflict: The commit mark in the sink contradicts the state of the job.
        """
        shard, content = element
        group = _create_batch_group(content)
        mark = _decode_mark(last.read())
        commit_id = make_commit_id(run, shard, mark, group.batches, group.window)
        elements = [one for batch in group.batches for one in decode_batch(batch)]
        result = self._commit_group(commit_id, elements)
        last.write(_encode_mark(CommitMark(commit_id.number, commit_id.digest)))
        yield CommitResult(run, shard, commit_id.number, result, group.window)

    def teardown(self) -> None:
        """Closes all committers."""
        for committer in self._committers.values():
            committer.close()
        self._committers.clear()

    def _commit_group(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        step = f"commit {commit_id.number} of shard {commit_id.shard}"
        return wait_for_sink(lambda: self._try_commit(commit_id, elements), step, self._patience)

    def _try_commit(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        try:
            return self._commit_once(commit_id, elements)
        except CommitConflict:
            # The committer can have an outdated commit mark, if another process has committed
            # meanwhile. A conflict fails the job, so check the conflict with a new committer first.
            return self._commit_once(commit_id, elements)

    def _commit_once(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        place = commit_id.run, commit_id.shard
        try:
            if place not in self._committers:
                self._committers[place] = self._sink.create_committer(*place)
            return self._committers[place].commit(commit_id, elements)
        except BaseException:
            if committer := self._committers.pop(place, None):
                # During an outage, the close can fail, too. The first error has the reason.
                with contextlib.suppress(Exception):
                    committer.close()
            raise


def make_commit_id(
    run: str,
    shard: int,
    last: CommitMark,
    batches: Sequence[bytes],
    window: CommitWindow | None = None,
) -> CommitId:
    """Returns the identity of the commit that follows the last one."""
    digest = hashlib.sha256(last.digest)
    if window is not None:
        digest.update(window.name.encode())
    for batch in batches:
        digest.update(len(batch).to_bytes(8, "big"))
        digest.update(batch)
    return CommitId(run, shard, last.number + 1, digest.digest()[:_DIGEST_BYTES], window)


def _create_batch_group(content: bytes | Iterable[bytes] | BatchGroup) -> BatchGroup:
    if isinstance(content, BatchGroup):
        return content
    return BatchGroup((content,) if isinstance(content, bytes) else tuple(content))


def _encode_mark(mark: CommitMark) -> bytes:
    return mark.number.to_bytes(_NUMBER_BYTES, "big") + mark.digest


def _decode_mark(data: bytes | None) -> CommitMark:
    if data is None:
        return CommitMark()
    return CommitMark(int.from_bytes(data[:_NUMBER_BYTES], "big"), data[_NUMBER_BYTES:])
