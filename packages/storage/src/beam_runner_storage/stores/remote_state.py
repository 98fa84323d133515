"""The state of a server in a store, which outlives the server's machine: journal, job list and staged files."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from beam_runner_model.errors import Unavailable

from beam_runner_storage.durable.logged import LogFailed
from beam_runner_storage.stores.heartbeat import ServerHeartbeat, get_heartbeat_store
from beam_runner_storage.stores.object_log import ObjectLog
from beam_runner_storage.stores.ownership import StateOwnership
from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.probe import probe_exclusive_creation
from beam_runner_storage.stores.spec import StoreSpec

_ATTEMPT_SECONDS = 10.0
_LOGGER = logging.getLogger(__name__)


class RemoteState:
    """State of a server in a store, which the next server takes over.

    The first `open` of a log takes the log over. The server takes over the log of jobs first. Then
    a job that finishes on the previous server is either still on the list, or its journal isn't
    removed.

    Args:
        spec: address of the prefix.

    Raises:
        StoreError: The store doesn't respond, refuses, or doesn't report the first creator of a
            file.
    """

    def __init__(self, spec: StoreSpec) -> None:
        probe_exclusive_creation(spec)
        self._ownership = StateOwnership()
        self._heartbeat = ServerHeartbeat(get_heartbeat_store(spec), self._ownership)
        self._heartbeat.start()
        self.jobs = self._create_log(spec.with_prefix("jobs"))
        """Log of the changes to the list of jobs."""
        self.journal = self._create_log(spec.with_prefix("journal"))
        """Log of the jobs' commits."""
        self.artifacts = StagedFiles(spec.with_prefix("artifacts").open_store(), self._ownership)

    def _create_log(self, spec: StoreSpec) -> ObjectLog:
        # The log repeats failed requests to the store, so each request has a short time limit.
        return ObjectLog(spec.open_store(_ATTEMPT_SECONDS), self._ownership, spec.url)

    @property
    def failure(self) -> str | None:
        """Reason why this server can't commit any more; None while the server can commit."""
        found = self._ownership.failure
        return None if found is None else str(found)

    @property
    def accepts_commits(self) -> bool:
        """Whether this server owns the state, and the store has accepted a recent file."""
        return self.failure is None and self._heartbeat.is_recent

    def limit_wait_times(self, seconds: float) -> None:
        """Limits the waits of commits for the store to ``seconds``, because the server stops."""
        self.journal.limit_wait_times(seconds)
        self.jobs.limit_wait_times(seconds)

    def close(self) -> None:
        """Persists the pending transactions; idempotent."""
        self.journal.close()
        self.jobs.close()
        self._heartbeat.stop()


class StagedFiles:
    """Staged files of clients, in a store (`beam_runner_jobservices.store.RemoteFiles`)."""

    def __init__(self, store: FileStore, ownership: StateOwnership) -> None:
        self._store = store
        self._ownership = ownership

    def put(self, sha256: str, file: Path) -> str:
        # Use a unique name. Another server that doesn't know this file yet can remove files whose
        # names it can predict.
        name = f"{sha256}/{secrets.token_hex(8)}"
        try:
            self._ownership.check_ownership()
            self._store.put_file(name, file)
        except (LogFailed, StoreError) as error:
            raise Unavailable(f"Can't store a staged file: {error}") from error
        return name

    def fetch(self, name: str, target: Path) -> None:
        try:
            self._store.fetch_file(name, target)
        except StoreError as error:
            raise Unavailable(f"Can't read a staged file: {error}") from error

    def names(self) -> Mapping[str, str]:
        try:
            return {name: name.partition("/")[0] for name in self._store.list_names()}
        except StoreError as error:
            raise Unavailable(f"Can't list staged files: {error}") from error

    def delete(self, names: Iterable[str]) -> None:
        try:
            self._ownership.check_ownership()
            self._store.delete_files(names)
        except (LogFailed, StoreError) as error:
            _LOGGER.warning(
                "Can't remove staged files before the next start of a server: %s", error
            )
