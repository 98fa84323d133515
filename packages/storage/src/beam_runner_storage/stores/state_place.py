"""What outlives a server's machine, in a store: its journal, its list of jobs, and what clients have staged."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from beam_runner_model.errors import Unavailable

from beam_runner_storage.durable.logged import LogFailed
from beam_runner_storage.stores.object_log import ObjectLog
from beam_runner_storage.stores.ownership import Ownership
from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.probe import probe_creation
from beam_runner_storage.stores.spec import StoreSpec

_ATTEMPT_SECONDS = 10.0
_LOGGER = logging.getLogger(__name__)


class StatePlace:
    """The state of one server after the other, below a prefix of a store.

    Logs are taken over when they are first opened: that of jobs first, so that a job that ends on the server before is
    on its list, or it can't have removed its journal either.

    Args:
        spec: the prefix.

    Raises:
        StoreError: the store does not answer, refuses, or does not tell who is the first to make a file.
    """

    def __init__(self, spec: StoreSpec) -> None:
        probe_creation(spec)
        self._ownership = Ownership()
        self.jobs = self._log(spec.within("jobs"))
        """Of the list of jobs."""
        self.journal = self._log(spec.within("journal"))
        """Of what jobs have committed."""
        self.artifacts = StagedFiles(spec.within("artifacts").open(), self._ownership)

    def _log(self, spec: StoreSpec) -> ObjectLog:
        # It is the log that waits for a store that is away.
        return ObjectLog(spec.open(_ATTEMPT_SECONDS), self._ownership, spec.url)

    @property
    def failure(self) -> str | None:
        """Why this server can't commit anything more."""
        found = self._ownership.failure
        return None if found is None else str(found)

    def hurry(self, seconds: float) -> None:
        """The server stops: commits wait for the store no longer than that."""
        self.journal.hurry(seconds)
        self.jobs.hurry(seconds)

    def close(self) -> None:
        """Keeps what is still to be kept; may be called again."""
        self.journal.close()
        self.jobs.close()


class StagedFiles:
    """What clients have staged (`beam_runner_jobservices.store.FarFiles`)."""

    def __init__(self, store: FileStore, ownership: Ownership) -> None:
        self._store = store
        self._ownership = ownership

    def put(self, sha256: str, file: Path) -> str:
        # Of its own, so that nobody who has not heard of it yet removes it.
        name = f"{sha256}/{secrets.token_hex(8)}"
        try:
            self._ownership.check()
            self._store.put(name, file)
        except (LogFailed, StoreError) as error:
            raise Unavailable(f"Can't store a staged file: {error}") from error
        return name

    def fetch(self, name: str, target: Path) -> None:
        try:
            self._store.fetch(name, target)
        except StoreError as error:
            raise Unavailable(f"Can't read a staged file: {error}") from error

    def names(self) -> Mapping[str, str]:
        try:
            return {name: name.partition("/")[0] for name in self._store.names()}
        except StoreError as error:
            raise Unavailable(f"Can't list staged files: {error}") from error

    def delete(self, names: Iterable[str]) -> None:
        try:
            self._ownership.check()
            self._store.delete(names)
        except (LogFailed, StoreError) as error:
            _LOGGER.warning(
                "Can't remove staged files before the next start of a server: %s", error
            )
