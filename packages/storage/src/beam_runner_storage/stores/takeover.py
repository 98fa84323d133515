"""Takeover of the log of transactions from the previous server, even if the previous server still
runs.

The next server writes a closing entry (seal) at the position of the previous server's next entry.
The store accepts only one object at that position: the seal or the entry. If that object is the
entry, the next server reads it, and tries the seal at the following position. If that object is the
seal, the previous server finds the seal and is fenced.

A busy previous server could win every time. So the next server writes a claim, for which the
previous server checks at intervals, and then stops. Seals and claims stay, so that a server that
was suspended for long finds them too.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import attrs
import xxhash
from beam_runner_model.threads import run_concurrently

from beam_runner_storage.durable.logged import LogFailed, Transaction
from beam_runner_storage.stores.log_entries import (
    LogEntry,
    LogPosition,
    LogSnapshot,
    decode_entry,
    get_chain_checksum,
    get_claim_name,
)
from beam_runner_storage.stores.ports import FileStore, MissingFileError

_AT_ONCE = 16
_TRIES = 5
_PIECE = 1 << 20


@attrs.frozen
class TakeoverResult:
    """Result of a takeover: the restored transactions, and this server's start in the log.

    `transactions` are the transactions after the last base. `place` and `chain` are the position
    and the chain checksum of this server's first entry.
    """

    transactions: tuple[Transaction, ...]
    place: LogPosition
    chain: int


class _MissingObjectError(Exception):
    """Error for a listed object that is missing because the previous server stored a newer base and
    then removed the object.
    """


def take_over_log(store: FileStore, writer: bytes, path: Path) -> TakeoverResult:
    """Prevents further writes of previous servers (fencing), and reads the log that they wrote.
    Downloads the last base (database copy) to ``path``, if a base exists.

    Raises:
        LogFailed: An object is damaged or missing; the log is unchanged.
        StoreError: The store doesn't respond, or refuses.
    """
    for _ in range(_TRIES):
        try:
            return _try_take_over_log(store, writer, path)
        except _MissingObjectError as error:
            path.unlink(missing_ok=True)
            reason = str(error)
    raise LogFailed(f"the stored log lacks {reason}")


def _try_take_over_log(store: FileStore, writer: bytes, path: Path) -> TakeoverResult:
    names = list(store.list_names())
    base = max(
        (base for base in map(LogSnapshot.parse_name, names) if base is not None), default=None
    )
    place = base.place if base is not None else LogPosition(0, 0)
    chain = base.chain if base is not None else 0
    places = [one for one in map(LogPosition.parse_name, names) if one is not None and one >= place]
    contents = _read_entries(store, places)
    if base is not None:
        _fetch_snapshot(store, base, path)
    transactions: list[Transaction] = []
    claimed = -1
    while True:
        if claimed < place.epoch and not contents:
            claimed = place.epoch
            store.create_file(get_claim_name(claimed), writer)
        found = contents.pop(place, None)
        if found is None:
            if contents:
                raise _MissingObjectError(place.object_name)
            seal = LogEntry(writer, chain, None).encode_entry()
            if store.create_file(place.object_name, seal):
                return TakeoverResult(
                    tuple(transactions), LogPosition(place.epoch + 1, 0), get_chain_checksum(seal)
                )
            found = _read_entry(store, place)
        entry = decode_entry(place, found, chain)
        chain = get_chain_checksum(found)
        if entry.transactions is not None:
            transactions += entry.transactions
            place = LogPosition(place.epoch, place.number + 1)
        else:
            place = LogPosition(place.epoch + 1, 0)
            if entry.writer == writer:
                return TakeoverResult(tuple(transactions), place, chain)


def _read_entries(store: FileStore, places: Collection[LogPosition]) -> dict[LogPosition, bytes]:
    found = run_concurrently(
        lambda place: _read_entry(store, place), tuple(places), _AT_ONCE, "log"
    )
    return dict(zip(places, found, strict=True))


def _read_entry(store: FileStore, place: LogPosition) -> bytes:
    try:
        return store.read_file(place.object_name)
    except MissingFileError:
        raise _MissingObjectError(place.object_name) from None


def _fetch_snapshot(store: FileStore, base: LogSnapshot, path: Path) -> None:
    try:
        store.fetch_file(base.object_name, path)
    except MissingFileError:
        raise _MissingObjectError(base.object_name) from None
    if compute_checksum(path) != base.checksum:
        path.unlink()
        raise LogFailed(f"{base.object_name} is damaged: the checksum doesn't match")


def compute_checksum(path: Path) -> int:
    """Returns the checksum of a copy of the database in the log."""
    checksum = xxhash.xxh3_64()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    return checksum.intdigest()
