"""Taking over a log from the server that wrote it, whether that is gone or not.

The next server puts a seal where the other one's next entry would be. Only one of both can be there: so either the
other one's entry is read, and the seal comes after it, or the other one finds the seal, and knows that it is fenced.
A server that never rests could be the first again and again: so it is told by a claim, for which it looks now and
then, and stops. Seals and claims stay, so that whoever was away for long finds them, too.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import attrs
import xxhash
from beam_runner_model.threads import run_together

from beam_runner_storage.durable.logged import LogFailed, Transaction
from beam_runner_storage.stores.log_entries import (
    Base,
    Entry,
    LogPosition,
    chain_of,
    claim,
    unpacked,
)
from beam_runner_storage.stores.ports import FileStore, MissingFileError

_AT_ONCE = 16
_TRIES = 5
_PIECE = 1 << 20


@attrs.frozen
class TakenOver:
    """What there was: the transactions after the last base; and where this server begins, chained to what."""

    transactions: tuple[Transaction, ...]
    place: LogPosition
    chain: int


class _Gone(Exception):
    """What was listed is not there any more: its server has kept a newer base, and removed it."""


def take_over(store: FileStore, writer: bytes, path: Path) -> TakenOver:
    """Fences the servers before, and reads what they have written; its last base is at `path` then, if there is one.

    Raises:
        LogFailed: it is not what was written; nothing was changed.
        StoreError: the store does not answer, or refuses.
    """
    for _ in range(_TRIES):
        try:
            return _take_over(store, writer, path)
        except _Gone as error:
            path.unlink(missing_ok=True)
            reason = str(error)
    raise LogFailed(f"the stored log lacks {reason}")


def _take_over(store: FileStore, writer: bytes, path: Path) -> TakenOver:
    names = list(store.names())
    base = max((base for base in map(Base.of, names) if base is not None), default=None)
    place = base.place if base is not None else LogPosition(0, 0)
    chain = base.chain if base is not None else 0
    places = [one for one in map(LogPosition.of, names) if one is not None and one >= place]
    contents = _contents(store, places)
    if base is not None:
        _fetch(store, base, path)
    transactions: list[Transaction] = []
    claimed = -1
    while True:
        if claimed < place.epoch and not contents:
            claimed = place.epoch
            store.create(claim(claimed), writer)
        found = contents.pop(place, None)
        if found is None:
            if contents:
                raise _Gone(place.name)
            seal = Entry(writer, chain, None).packed()
            if store.create(place.name, seal):
                return TakenOver(
                    tuple(transactions), LogPosition(place.epoch + 1, 0), chain_of(seal)
                )
            found = _read(store, place)
        entry = unpacked(place, found, chain)
        chain = chain_of(found)
        if entry.transactions is not None:
            transactions += entry.transactions
            place = LogPosition(place.epoch, place.number + 1)
        else:
            place = LogPosition(place.epoch + 1, 0)
            if entry.writer == writer:
                return TakenOver(tuple(transactions), place, chain)


def _contents(store: FileStore, places: Collection[LogPosition]) -> dict[LogPosition, bytes]:
    found = run_together(lambda place: _read(store, place), tuple(places), _AT_ONCE, "log")
    return dict(zip(places, found, strict=True))


def _read(store: FileStore, place: LogPosition) -> bytes:
    try:
        return store.read(place.name)
    except MissingFileError:
        raise _Gone(place.name) from None


def _fetch(store: FileStore, base: Base, path: Path) -> None:
    try:
        store.fetch(base.name, path)
    except MissingFileError:
        raise _Gone(base.name) from None
    if checksum_of(path) != base.checksum:
        path.unlink()
        raise LogFailed(f"{base.name} is damaged: the checksum doesn't match")


def checksum_of(path: Path) -> int:
    """That of a base."""
    checksum = xxhash.xxh3_64()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    return checksum.intdigest()
