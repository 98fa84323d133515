"""A log of database transactions in a store, with one object per group of waiting transactions.

Only one server at a time can continue the log (ADR 0026). While the store is unavailable, added
transactions wait without a limit, so no transaction is lost.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from beam_runner_model.threads import start_essential_thread, start_helper_thread

from beam_runner_storage.durable.logged import LogFailed, LogFenced, LogUnavailable, Transaction
from beam_runner_storage.stores.log_entries import (
    LogEntry,
    LogPosition,
    LogSnapshot,
    get_chain_checksum,
    get_claim_name,
)
from beam_runner_storage.stores.ownership import StateOwnership
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError
from beam_runner_storage.stores.takeover import compute_checksum, take_over_log

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 10.0
"""Maximum time (s) until a transaction is persisted if no caller waits for it, and interval of the
checks of an idle log.
"""
_CLOSE_SECONDS = 15.0
_BASE_BYTES = 8 << 20
_BASE_ENTRIES = 1000
_LOGGER = logging.getLogger(__name__)


class ObjectLog:
    """Log of database transactions, stored as objects below a prefix of a store. Implements
    `beam_runner_storage.durable.logged.TransactionLog`.

    Args:
        store: store of the prefix, which contains no other log.
        ownership: ownership of all logs of this server.
        url: name of the store in errors.
        look: interval in seconds, see ``_LOOK_SECONDS``.
    """

    def __init__(
        self,
        store: FileStore,
        ownership: StateOwnership,
        url: str,
        *,
        look: float = _LOOK_SECONDS,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._url = url
        self._neighbour = f"the state store at {url}"
        self._deadline = math.inf
        self._away = ""
        self._look = look
        self._place = LogPosition(0, 0)
        self._chain = 0
        self._changed = threading.Condition()
        self._queue: list[Transaction] = []
        self._added = self._durable = self._wanted = 0
        self._copy: tuple[int, Path] | None = None
        self._keeping = False
        self._looked = time.monotonic()
        self._base_bytes = self._bytes = self._entries = 0
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None

    def take_over_log(self, path: Path) -> Sequence[Transaction]:
        try:
            found = take_over_log(self._store, self._ownership.writer, path)
        except (LogFailed, StoreError) as error:
            raise LogFailed(f"Can't take over the state in {self._url}: {error}") from error
        self._place, self._chain = found.place, found.chain
        return found.transactions

    def start_log(self, copy: Path) -> None:
        try:
            self._store_snapshot(self._place, self._chain, copy)
        except (StoreError, OSError) as error:
            raise LogFailed(f"Can't persist the state: {error}") from error
        self._writer = start_essential_thread(self._run_writer, "log", self._handle_writer_crash)

    def add_transaction(self, transaction: Transaction) -> bool:
        with self._changed:
            self._queue.append(transaction)
            self._added += 1
            is_long = (
                self._bytes > max(_BASE_BYTES, self._base_bytes) or self._entries >= _BASE_ENTRIES
            )
            return is_long and not self._keeping

    def queue_copy_upload(self, copy: Path) -> None:
        with self._changed:
            self._copy = (self._added, copy)
            self._keeping = True

    def wait_until_durable(self, seconds: float | None = None) -> None:
        began = time.monotonic()
        with self._changed:
            mine = self._added
            self._wanted = max(self._wanted, mine)
            self._changed.notify_all()
            while self._durable < mine:
                self._ownership.check_ownership()
                if self._writer is None or not self._writer.is_alive():
                    raise LogFailed(
                        "the log's writer has stopped, and the server commits nothing more"
                    )
                if time.monotonic() > self._deadline:
                    raise LogFailed(
                        f"the server is shutting down, and {self._neighbour} has not responded"
                    )
                waited = time.monotonic() - began
                if seconds is not None and waited > seconds:
                    reason = self._away or f"no response for {waited:.0f} s"
                    raise LogUnavailable(self._neighbour, reason)
                # Wait with a timeout, because a failure of another log of this server doesn't wake
                # threads that wait for this log.
                self._changed.wait(_AGAIN_SECONDS)

    def limit_wait_times(self, seconds: float) -> None:
        """Limits all further waits for the store to ``seconds``, because the server stops."""
        with self._changed:
            self._deadline = min(self._deadline, time.monotonic() + seconds)
            self._changed.notify_all()

    def close(self) -> None:
        """Writes the added transactions to the store, if the store accepts them, and closes the
        log; idempotent.
        """
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join(_CLOSE_SECONDS)

    def _run_writer(self) -> None:
        try:
            while self._write_next_entry():
                pass
        except LogFailed as error:
            self._ownership.record_failure(error)
        with self._changed:
            self._changed.notify_all()

    def _handle_writer_crash(self, error: BaseException) -> None:
        """Stops this server's commits, so that the next server continues: see `StateOwnership.failure`."""
        self._ownership.record_failure(LogFailed(f"the log in {self._url} failed: {error}"))
        with self._changed:
            self._changed.notify_all()

    def _write_next_entry(self) -> bool:
        """Stores the queued transactions as one log entry. Returns whether the log is open or has more
        queued transactions.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._wanted > self._durable or self._closing.is_set(), self._look
            )
            copied, copy = self._copy or (self._added, None)
            count = copied - self._durable
            transactions, self._queue = self._queue[:count], self._queue[count:]
            self._copy = None
        self._ownership.check_ownership()
        if time.monotonic() - self._looked >= self._look:
            self._check_for_newer_claim()
        if transactions:
            self._append_entry(transactions)
        if copy is not None:
            self._start_snapshot_upload(copy)
        with self._changed:
            self._durable += len(transactions)
            self._changed.notify_all()
            return bool(self._queue) or not self._closing.is_set()

    def _append_entry(self, transactions: Sequence[Transaction]) -> None:
        contents = LogEntry(self._ownership.writer, self._chain, transactions).encode_entry()
        self._create_entry(contents)
        self._place = LogPosition(self._place.epoch, self._place.number + 1)
        self._chain = get_chain_checksum(contents)
        self._bytes += len(contents)
        self._entries += 1

    def _create_entry(self, contents: bytes) -> None:
        began = time.monotonic()
        while True:
            try:
                if self._store.create_file(
                    self._place.object_name, contents
                ) or self._is_entry_of_this_server(contents):
                    break
            except StoreError as error:
                waited = time.monotonic() - began
                if time.monotonic() > self._deadline or self._closing.is_set():
                    raise LogFailed(
                        f"{error}; the server retried for {waited:.0f} s. The next"
                        " server resumes from the last commit"
                    ) from error
                if not self._away:
                    _LOGGER.warning("jobs wait until the store accepts their commits: %s", error)
                self._away = str(error)
                self._closing.wait(_AGAIN_SECONDS)
        if self._away:
            seconds = time.monotonic() - began
            _LOGGER.warning("%s accepts commits again, after %.0f s", self._neighbour, seconds)
            self._away = ""

    def _is_entry_of_this_server(self, contents: bytes) -> bool:
        """Returns True if this server wrote the log entry that already exists in the store.

        The case occurs if the response to the entry's creation was lost.

        Raises:
            LogFenced: Another server wrote the entry.
        """
        try:
            if self._store.read_file(self._place.object_name) == contents:
                return True
        except MissingFileError:
            return False
        raise self._build_fenced_error()

    def _check_for_newer_claim(self) -> None:
        """Checks for the claim of another server, because an idle server would not notice a takeover
        otherwise.

        Raises:
            LogFenced: Another server has claimed the log.
        """
        self._looked = time.monotonic()
        try:
            self._store.read_file(get_claim_name(self._place.epoch))
        except StoreError:
            return
        raise self._build_fenced_error()

    def _build_fenced_error(self) -> LogFenced:
        return LogFenced(
            f"another server has taken over the state in {self._url} and runs its jobs;"
            " this server commits nothing more"
        )

    def _start_snapshot_upload(self, copy: Path) -> None:
        self._bytes = self._entries = 0
        keep = partial(self._upload_snapshot, self._place, self._chain, copy)
        start_helper_thread(keep, "log-base")

    def _upload_snapshot(self, place: LogPosition, chain: int, copy: Path) -> None:
        try:
            self._store_snapshot(place, chain, copy)
        except (StoreError, OSError) as error:
            _LOGGER.warning("Can't store a copy of the state, so the log grows: %s", error)
        finally:
            self._keeping = False

    def _store_snapshot(self, place: LogPosition, chain: int, copy: Path) -> None:
        """Stores a copy of the database, and then removes all earlier entries and bases.

        The seal and the claim of each epoch stay in the store.
        """
        base = LogSnapshot(place, chain, compute_checksum(copy))
        self._base_bytes = copy.stat().st_size
        self._store.put_file(base.object_name, copy)
        copy.unlink()
        names = list(self._store.list_names())
        entries = [found for found in map(LogPosition.parse_name, names) if found is not None]
        seals = {one.epoch: one for one in sorted(entries) if one.epoch < place.epoch}.values()
        old = [one.object_name for one in entries if one < place and one not in seals]
        bases = [found for found in map(LogSnapshot.parse_name, names) if found is not None]
        old += [one.object_name for one in bases if one.place < place]
        self._store.delete_files(old)
