"""Where a process has the files of its job: in the folder that machines share, or as copies of a store's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

import attrs

from beam_spark_executor.bundles.durability import FileKeeper, SharedFolder
from beam_spark_executor.data.copies import LocalCopies
from beam_spark_executor.stores.spec import StoreSpec
from beam_spark_executor.temporary import TemporaryFolder


@attrs.frozen
class JobFiles:
    """The files of a job, as one process has them.

    Attributes:
        folder: where they are to be read and written here.
        keeper: sees to what is needed in it, and to what a commit names.
        remove: removes what is this process's alone.
    """

    folder: Path
    keeper: FileKeeper
    remove: Callable[[], None]

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
    scratch = TemporaryFolder("data-", scratch_folder())
    return JobFiles(scratch.path, LocalCopies(work.store.open(), scratch.path), scratch.remove)


def scratch_folder() -> Path:
    """Where this machine has room for what is large: Spark's own folder, if it says one."""
    told = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0].strip()
    return Path(told or tempfile.gettempdir())
