"""The proof that no two tasks of a section have read different versions of what a third one wrote.

Spark runs a task again when what it wrote is lost, and user code may answer differently then. So each task tells all tasks
after it a digest of everything it has sent, to whomever; each of these tells the server the digest of all that it was told.
If they are the same for all tasks of a level, all have read the same, to the last bit, whichever attempt at what task it came from.
It holds for every version of Spark, and with every setting.
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
    """What came through Spark's shuffle is not what was sent; says what of it."""


@attrs.frozen
class Told:
    """What a task says to a shard of what it has sent.

    Attributes:
        parcels: how many, before this one.
        digest: of the rows for this shard.
        of_all: of the rows for all shards; the same to each.
        broken: something is missing, since the section must end.
    """

    parcels: int
    digest: int
    of_all: int
    broken: bool

    def encode(self) -> bytes:
        """It as bytes."""
        return _TOLD.pack(self.parcels, self.digest, self.of_all, self.broken)

    @classmethod
    def decode(cls, encoded: bytes) -> Told:
        """What `encode` gave."""
        return cls(*_TOLD.unpack(encoded))


def digest_of_all(digests: Sequence[int]) -> int:
    """The digest of what one task has sent to all shards, by shard."""
    return xxhash.xxh3_64_intdigest(struct.pack(f">{len(digests)}Q", *digests))


def digest_of_input(told: Mapping[int, Told]) -> int:
    """The digest of what one task has read, by what each source told."""
    pairs = (_DIGEST.pack(source, one.of_all) for source, one in sorted(told.items()))
    return xxhash.xxh3_64_intdigest(b"".join(pairs))


def check_input(
    level: str, sources: int, told: Mapping[int, Told], found: Mapping[int, Sequence[bytes | None]]
) -> None:
    """Looks whether a task has got what was sent to it, no more and no less.

    Args:
        level: the names of the stages that sent it.
        sources: how many tasks these are.
        told: by task, what it said of what it sent.
        found: by task, the digests of its parcels but the last, in order; None for one without rows.

    Raises:
        ExchangeError: something was lost, doubled or mixed.
    """
    if told.keys() != set(range(sources)) or found.keys() - told.keys():
        missing = len(set(range(sources)) - told.keys())
        raise ExchangeError(f"Spark's shuffle lost what {missing} tasks of {level} sent")
    for source, one in told.items():
        parcels = found.get(source, ())
        digest = xxhash.xxh3_64()
        for parcel in parcels:
            digest.update(parcel or b"")
        if one.parcels != len(parcels) or one.digest != digest.intdigest():
            raise ExchangeError(
                f"Spark's shuffle gave other rows than task {source} of {level} sent: "
                f"{len(parcels)} parcels of {one.parcels}"
            )


def mixed_level(reply: SectionReply, tasks: Sequence[int]) -> int | None:
    """The first level whose tasks have not all read the same, or have not all been heard; None if there is none.

    Args:
        reply: what all tasks say.
        tasks: how many there are in each level.
    """
    heard = dict(reply.tasks)
    for level, count in enumerate(tasks):
        seen = [one.tasks for one in reply.seen if one.level == level]
        if heard.get(level) != count or seen != ([count] if level else []):
            return level
    return None


def refusal_text(names: str) -> str:
    """Why a section is not committed although it ended; ``names`` of the stages whose output was read."""
    return (
        f"Spark mixed two versions of what {names} put out: an executor was lost, and user code answered "
        "differently the second time. Nothing of it was committed"
    )
