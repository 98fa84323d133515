"""Locations of a server's job files, which are in a separate part of the store that ``--data-dir`` names."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from pathlib import Path

import attrs
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_model.threads import start_helper_thread
from beam_runner_storage.removal import remove_tree
from beam_runner_storage.stores.identity import load_server_id
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import MARK, PROBE, create_marker_file
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class JobFolders:
    """Locations of the files of a server's jobs.

    Attributes:
        spec: store with a part for each job.
        folder: folder with a subfolder for the files of each job that only the server uses; the
            same as `spec` if the store is a folder.
    """

    spec: StoreSpec
    folder: Path

    @classmethod
    def create(
        cls, wanted: StoreSpec | None, folder: Path, state: StoreSpec, *, durable: bool = False
    ) -> JobFolders:
        """Creates the locations for the server with this state.

        Args:
            wanted: store that machines share; None if the user configured none.
            folder: folder of the server, which contains the job files if machines share no store.
            state: store of the server's state.
            durable: whether committed data must survive a crash of the machine.

        Raises:
            StoreError: The state can't be read or written.
        """
        own = folder / "jobs"
        if wanted is None:
            return cls(StoreSpec(str(own), durable), own)
        spec = attrs.evolve(wanted.with_prefix(load_server_id(state.open_store())), durable=durable)
        return cls(spec, spec.folder or own)

    def get_job_folder(self, owner: str) -> JobFolder:
        """Returns the folder of a job. `owner` is the ID of the first job in the chain of updates."""
        return JobFolder(self.spec.with_prefix(owner), self.folder / owner)

    def check_store(self) -> None:
        """Checks that the store accepts and returns files. Writes a file by which workers recognize
        the store.

        Raises:
            StoreError: The check failed; the text has the reason.
        """
        create_marker_file(self.spec)

    def copy_without_shared_store(self, master: str) -> JobFolders:
        """Returns a copy for a cluster whose machines share no store, and logs a warning."""
        _LOGGER.warning(
            "%s runs bundles on other machines, and no --data-dir names storage that"
            " they share: bounded stages pass their data through Spark's shuffle, and"
            " jobs that need shared storage fail",
            master,
        )
        return attrs.evolve(self, spec=NO_STORE)

    def remove_job_files(self, job_id: str) -> None:
        """Removes the files of a job.

        Raises:
            StoreError: The store doesn't respond, or refuses.
        """
        remove_tree(self.folder / job_id)
        store = self.spec.with_prefix(job_id).open_store()
        store.delete_files(list(store.list_names()))

    def remove_other_jobs(self, jobs: Collection[str]) -> None:
        """Removes the files of all jobs except `jobs`. If the files are in an object store, a
        background thread removes them.
        """
        stay = {MARK, PROBE, *jobs}
        for folder in self.folder.glob("*"):
            if folder.name not in stay:
                remove_tree(folder)
        if self.spec.folder is None:
            start_helper_thread(partial(_remove_other_parts, self.spec, stay), "leftovers")


def _remove_other_parts(spec: StoreSpec, parts: Collection[str]) -> None:
    try:
        store = spec.open_store()
        store.delete_files(
            [name for name in store.list_names() if name.split("/", 1)[0] not in parts]
        )
    except StoreError as error:
        _LOGGER.warning(
            "Can't remove data of finished jobs from the store; the server will retry: %s", error
        )
