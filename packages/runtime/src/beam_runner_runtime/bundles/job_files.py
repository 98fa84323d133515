"""Where a process has the files of its job: in the folder that machines share, or as copies of a store's."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

import attrs
import xxhash
from beam_runner_data.fetching.copies import LocalCopies
from beam_runner_data.fetching.machine_files import MachineFiles
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.temporary import CommonFolder, TemporaryFolder

from beam_runner_runtime.bundles.durability import FileKeeper, SharedFolder


@attrs.frozen
class JobFiles:
    """The files of a job, as one process has them.

    Attributes:
        folder: where they are to be read and written here.
        keeper: sees to what is needed in it, and to what a commit names.
        remove: removes what is this process's alone.
        in_extents: whether rows of a file are fetched, and not all of it.
    """

    folder: Path
    keeper: FileKeeper
    remove: Callable[[], None]
    in_extents: bool = False

    def leave(self, code: int) -> NoReturn:
        """Ends the process, and what is its alone."""
        try:
            self.remove()
        finally:
            os._exit(code)


class Whereabouts(Protocol):
    """What must be known to find the files of a job: see `JobWork`."""

    @property
    def folder(self) -> str: ...
    @property
    def store(self) -> StoreSpec | None: ...
    @property
    def durable(self) -> bool: ...


def files_of(work: Whereabouts) -> JobFiles:
    """The files of a job, in this process.

    Raises:
        StoreError: the store can't be used here.
        OSError: there is no place on this machine's disk.
    """
    if work.store is None:
        folder = Path(work.folder)
        return JobFiles(folder, SharedFolder(folder, durable=work.durable), lambda: None)
    # A place for a job's files is no other job's; where there is none, nothing is had in common.
    name = work.store.url if work.store.keeps else secrets.token_hex()
    common = CommonFolder("store-", xxhash.xxh3_128_hexdigest(name.encode()), scratch_folder())
    try:
        own = TemporaryFolder("data-", common.path)
        machine = MachineFiles(work.store.open(), common.path, url=work.store.url)
        copies = LocalCopies(machine, own.path)
    except BaseException:
        common.leave()
        raise

    def remove() -> None:
        own.remove()
        common.leave()

    return JobFiles(own.path, copies, remove, in_extents=work.store.keeps)


def scratch_folder() -> Path:
    """Where this machine has room for what is large: Spark's own folder, if it says one."""
    told = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0].strip()
    return Path(told or tempfile.gettempdir())
