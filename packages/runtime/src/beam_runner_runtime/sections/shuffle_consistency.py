"""Check that all tasks of a section (stages that run as one Spark job) read the same version of an
earlier task's output.

Spark retries a task when its output is lost, and user code can return a different result on the
retry. So each task sends a digest of all its output, for all shards, to all tasks of the next
level. Each task of the next level combines the digests that it received into one digest, and
reports that digest to the server. If all tasks of a level report the same digest, all of them read
the same bytes, whichever attempts wrote them. The check doesn't depend on Spark's version or
settings.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import attrs
import xxhash

from beam_runner_runtime.sections.replies import SectionReply

_TOLD = struct.Struct(">QQQ?")
_DIGEST = struct.Struct(">QQ")


class ExchangeError(Exception):
    """Raised if Spark's shuffle lost, duplicated or changed data."""


@attrs.frozen
class OutputDeclaration:
    """Closing record that a task sends to each of the next tasks: number and digest of the sent
    rows.

    Attributes:
        parcels: number of parcels (batches of rows) that the task sent to this shard before this
            record.
        digest: digest of the rows for this shard.
        of_all: digest of the rows for all shards, the same in each closing record of the task.
        broken: whether output is missing because the task stopped the section.
    """

    parcels: int
    digest: int
    of_all: int
    broken: bool

    def encode(self) -> bytes:
        """Returns the encoded closing record (count and digests of the sent rows), for the
        receiving task.
        """
        return _TOLD.pack(self.parcels, self.digest, self.of_all, self.broken)

    @classmethod
    def decode(cls, encoded: bytes) -> OutputDeclaration:
        """Decodes a closing record from the bytes that `encode` returned."""
        return cls(*_TOLD.unpack(encoded))


def combine_shard_digests(digests: Sequence[int]) -> int:
    """Computes the digest of one task's complete output from the digests of the data for each shard."""
    return xxhash.xxh3_64_intdigest(struct.pack(f">{len(digests)}Q", *digests))


def combine_source_digests(declared: Mapping[int, OutputDeclaration]) -> int:
    """Computes the digest of one task's input from the closing records of the sending tasks."""
    pairs = (_DIGEST.pack(source, one.of_all) for source, one in sorted(declared.items()))
    return xxhash.xxh3_64_intdigest(b"".join(pairs))


def check_received_blocks(
    level: str,
    sources: int,
    declared: Mapping[int, OutputDeclaration],
    found: Mapping[int, Sequence[bytes | None]],
) -> None:
    """Checks that a task received exactly the data that the sending tasks sent to this task.

    Args:
        level: names of the stages that sent the data.
        sources: number of sending tasks.
        declared: declaration of each sending task.
        found: digests of the received parcels (batches of rows) by sending task, in order, without
            its declaration; None for a parcel without rows.

    Raises:
        ExchangeError: Data was lost, doubled or mixed.
    """
    if declared.keys() != set(range(sources)) or found.keys() - declared.keys():
        missing = len(set(range(sources)) - declared.keys())
        raise ExchangeError(f"Spark's shuffle lost the output of {missing} tasks of {level}")
    for source, one in declared.items():
        parcels = found.get(source, ())
        digest = xxhash.xxh3_64()
        for parcel in parcels:
            digest.update(parcel or b"")
        if one.parcels != len(parcels) or one.digest != digest.intdigest():
            raise ExchangeError(
                f"Spark's shuffle delivered other rows than task {source} of {level}"
                f" sent: {len(parcels)} of {one.parcels} parcels"
            )


def find_level_with_mixed_input(reply: SectionReply, tasks: Sequence[int]) -> int | None:
    """Returns the first level whose tasks read different input or didn't all report; None if all
    levels are consistent.

    Args:
        reply: merged reply of all tasks.
        tasks: number of tasks in each level.
    """
    heard = dict(reply.tasks)
    for level, count in enumerate(tasks):
        seen = [one.tasks for one in reply.seen if one.level == level]
        if heard.get(level) != count or seen != ([count] if level else []):
            return level
    return None


def format_section_refusal(names: str) -> str:
    """Returns the reason why a finished section (Spark job) isn't committed. ``names`` are the
    stages whose output differed between tasks.
    """
    return (
        f"Spark mixed two versions of the output of {names}: an executor was lost, and"
        " user code returned a different result on the retry. Nothing of the section"
        " was committed"
    )
