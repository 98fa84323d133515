"""Where the data of a server's jobs lies: a part of its own of what ``--data-dir`` names."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

import attrs
from beam_runner_model.threads import start_helper
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import probe
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec

_ID = "server-id"
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class DataPlace:
    """Where jobs have their data.

    Attributes:
        folder: has a folder for each job.
        store: has a prefix for each job; then what is in the folder is the server's alone.
        is_shared: whether somebody has said that other machines reach it.
    """

    folder: Path
    store: StoreSpec | None = None
    is_shared: bool = False

    @classmethod
    def of(
        cls, wanted: StoreSpec | Path | None, state: Path, server_id: str | None = None
    ) -> DataPlace:
        """The part of what is wanted that belongs to the server with this state folder.

        Args:
            wanted: a store, a folder that machines share, or nothing of both.
            state: what is the server's alone.
            server_id: the server's part of what is wanted, where the state folder does not say it.

        Raises:
            OSError: the folders can't be read or written.
        """
        own = state / "jobs"
        match wanted:
            case None:
                return cls(own)
            case StoreSpec():
                return cls(own, wanted.within(server_id or _server_id(state)), is_shared=True)
            case folder:
                return cls(folder / (server_id or _server_id(state)), is_shared=True)

    def check(self) -> None:
        """Tries whether data can be written and read back.

        Raises:
            StoreError: it can't; says why.
        """
        if self.store is not None:
            probe(self.store)
        else:
            try:
                # Whoever lets others in afterwards keeps that: the mode is set only once.
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"the folder {self.folder} can't be made: {error.strerror}"
                ) from error

    def for_machines(self, master: str) -> DataPlace:
        """The same for bundles on other machines: none where nobody has said what they reach, which is told once."""
        if self.is_shared:
            return self
        _LOGGER.warning(
            "%s runs bundles on other machines, and no --data-dir says where they find data between stages: bounded"
            " stages hand it on through Spark's shuffle, and jobs that need such a place fail",
            master,
        )
        return attrs.evolve(self, store=NO_STORE)

    def remove(self, job_id: str) -> None:
        """Removes the data of a job.

        Raises:
            StoreError: the store does not answer, or refuses.
        """
        shutil.rmtree(self.folder / job_id, ignore_errors=True)
        if self.store is not None:
            store = self.store.within(job_id).open()
            store.delete(list(store.names()))

    def remove_but(self, jobs: Collection[str]) -> None:
        """Removes what there is of other jobs, which have ended; in a store beside the caller's work."""
        for folder in self.folder.glob("*"):
            if folder.name not in jobs:
                shutil.rmtree(folder, ignore_errors=True)
        if self.store is not None:
            start_helper(partial(_remove_but, self.store, frozenset(jobs)), "leftovers")


def _remove_but(spec: StoreSpec, jobs: Collection[str]) -> None:
    try:
        store = spec.open()
        store.delete([name for name in store.names() if name.split("/", 1)[0] not in jobs])
    except StoreError as error:
        _LOGGER.warning("what ended jobs have left in the store stays for now: %s", error)


def _server_id(state: Path) -> str:
    """A name that no other server has, for as long as its state folder is there."""
    file = state / _ID
    if not file.exists():
        new = file.with_suffix(".new")
        new.write_text(f"server-{secrets.token_hex(8)}\n")
        new.replace(file)
    return file.read_text().strip()
