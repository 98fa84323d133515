"""Checks whether this machine can use a job's files: access to the store of the files, and disk
space for copies.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from beam_runner_storage.stores.ports import MissingFileError, StoreError
from beam_runner_storage.stores.probe import MARK, probe_store
from beam_runner_storage.stores.spec import StoreSpec

_ROOM_BYTES = 1 << 20
_PATIENCE_SECONDS = 5.0


def get_scratch_folder() -> Path:
    """Returns a folder for large files on this machine: Spark's local folder, if Spark names one."""
    told = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0].strip()
    return Path(told or tempfile.gettempdir())


def get_local_files_folder(spec: StoreSpec) -> Path:
    """Returns the folder that contains the local files or copies of a store, to measure its disk."""
    return spec.folder or get_scratch_folder()


def explain_unusable_store(spec: StoreSpec) -> str:
    """Returns a sentence that says why this machine can't use a store's files, and how to fix the
    cause; empty if the machine can use the files.
    """
    if spec.folder is None and (trouble := _explain_unusable_scratch_folder()):
        return trouble
    try:
        if spec.folder is None:
            probe_store(spec)
        if spec.accepts_files:
            spec.open_store(_PATIENCE_SECONDS).read_file(MARK)
    except MissingFileError:
        kind = "store" if spec.folder is None else "folder"
        return (
            f"the {kind} {spec.url} for data is a different {kind} on this machine: set --data-dir to storage"
            " that all machines share, or to s3://BUCKET/PREFIX (or gs://, az://, abfss://, hdfs://)"
        )
    except StoreError as error:
        return str(error)
    return ""


def _explain_unusable_scratch_folder() -> str:
    """Returns a sentence that says why this machine can't write copies of files; empty if the
    machine can write copies.
    """
    folder = get_scratch_folder()
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            written = file.write(bytes(_ROOM_BYTES))
        reason = "" if written == _ROOM_BYTES else "the disk is full"
    except OSError as error:
        reason = str(error.strerror)
    if not reason:
        return ""
    return (
        f"Can't write to {folder} ({reason}), where workers store data before they upload it: free some space,"
        " or set Spark's spark.local.dir or SPARK_LOCAL_DIRS to another folder"
    )
