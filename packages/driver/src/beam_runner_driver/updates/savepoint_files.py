"""Files of a savepoint: the data files of a stream, its ledger (committed state), and a
description, which is written last.

A savepoint doesn't refer to the machine, server or folder of the stream. A folder without a
description isn't a savepoint, so an incomplete copy is never read.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs
from beam_runner_model.savepoints import Savepoint
from beam_runner_storage.errors import StorageError
from beam_runner_storage.journal.codec import RecordFormatError
from beam_runner_storage.stores.ports import FileStore, MissingFileError
from beam_runner_storage.stores.spec import StoreSpec, parse_user_store

from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger

_FORMAT = 1
_DESCRIPTION = "savepoint.json"
_LEDGER = "ledger"
_DATA = "data-"
_HASH_LENGTH = 24


class SavepointError(StorageError):
    """Raised if a savepoint can't be written or read. The message contains the savepoint's URL."""


@attrs.frozen
class SavepointContents:
    """Committed state of a stream at one point in time, with the names of its data files.

    Attributes:
        snapshot: encoded committed state.
        files: names of the data files that the ledger needs.
        kept_in: folder of a running job; None for an ended job. The folder postpones deletions
            until the files are released.
    """

    snapshot: bytes = attrs.field(repr=False)
    files: tuple[str, ...]
    kept_in: JobFolder | None = None

    def release_files(self) -> None:
        """Allows the running job to delete the files again."""
        if self.kept_in is not None:
            self.kept_in.release_files()


@attrs.frozen
class StoredSavepoint:
    """Savepoint that was read from a store.

    Attributes:
        about: description.
        ledger: committed state of the stream.
        store: store of the savepoint.
    """

    about: Savepoint
    ledger: JobLedger
    store: FileStore

    def rename_file(self, name: str) -> str:
        """Returns the name for a copy of one of the savepoint's data files in the folder of a new
        job.

        The name differs from the names of files that bundles write, and from copies out of other
        savepoints.
        """
        text = f"{self.about.job_id}/{self.about.made}/{name}"
        return f"s{hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]}"


def capture_savepoint_contents(
    ledger: JobLedger, folder: JobFolder | None = None
) -> SavepointContents:
    """Returns the committed state of a job for a savepoint. If the job is running, its folder
    postpones the deletion of files.
    """
    if folder is not None:
        folder.postpone_deletions()
    return SavepointContents(ledger.encode_snapshot(), tuple(ledger.list_needed_files()), folder)


def write_savepoint(contents: SavepointContents, source: StoreSpec, about: Savepoint) -> Savepoint:
    """Writes a savepoint: copies the data files of a stream, and writes its state. The stream's
    files must not be deleted meanwhile.

    The function reads and writes all data files.

    Args:
        contents: state of the stream.
        source: location of the stream's files.
        about: description of the savepoint, without the number and size of its files.

    Returns:
        The complete description.

    Raises:
        SavepointError: The URL is invalid or has a savepoint already, or a file is missing.
        StoreError: A store doesn't respond, or refuses the request.
    """
    target = _open_store(about.url)
    if _file_exists(target):
        raise SavepointError(
            f"{about.url} already contains a savepoint; give the URL of another folder"
        )
    names = ((name, f"{_DATA}{name}") for name in contents.files)
    size = _copy_files(source.open_store(), target, names)
    about = attrs.evolve(about, files=len(contents.files), size=size)
    with tempfile.TemporaryDirectory(prefix="beam-savepoint-") as folder:
        ledger = Path(folder) / _LEDGER
        ledger.write_bytes(contents.snapshot)
        target.put_file(_LEDGER, ledger)
    description = {
        "format": _FORMAT,
        "ledger_sha256": hashlib.sha256(contents.snapshot).hexdigest(),
        **attrs.asdict(about),
    }
    target.create_file(_DESCRIPTION, json.dumps(description, indent=1).encode())
    return about


def read_savepoint(url: str) -> StoredSavepoint:
    """Reads the committed state (ledger) of a savepoint.

    Raises:
        SavepointError: The URL is invalid or has no complete savepoint, or this version can't read
            the savepoint.
        StoreError: The store doesn't respond, or refuses the request.
    """
    store = _open_store(url)
    try:
        found = json.loads(store.read_file(_DESCRIPTION))
        snapshot = store.read_file(_LEDGER)
        if found["format"] != _FORMAT:
            raise SavepointError(f"the savepoint at {url} has the format of another version")
        if hashlib.sha256(snapshot).hexdigest() != found["ledger_sha256"]:
            raise SavepointError(
                f"the savepoint at {url} is damaged: the checksum of its committed state doesn't match"
            )
        names = [field.name for field in attrs.fields(Savepoint)]
        about = Savepoint(**{**{name: found[name] for name in names}, "url": url})
        return StoredSavepoint(about, JobLedger.from_state(DecodedJournal(snapshot).ledger), store)
    except MissingFileError as error:
        raise SavepointError(f"{url} has no complete savepoint: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SavepointError(f"the savepoint at {url} is damaged: {error}") from error
    except RecordFormatError as error:
        raise SavepointError(f"this version can't read the savepoint at {url}: {error}") from error


def fetch_data_files(savepoint: StoredSavepoint, needed: Iterable[str], target: StoreSpec) -> None:
    """Copies the data files that a new job needs into the job's location.

    Args:
        savepoint: the savepoint.
        needed: names of the files in the new job, from `StoredSavepoint.rename_file`.
        target: location of the new job's files.

    Raises:
        SavepointError: A file of the savepoint is missing.
        StoreError: A store doesn't respond, or refuses the request.
    """
    names = {savepoint.rename_file(name): name for name in savepoint.ledger.list_needed_files()}
    pairs = ((f"{_DATA}{names[new]}", new) for new in sorted(set(needed)))
    _copy_files(savepoint.store, target.open_store(), pairs)


def _copy_files(source: FileStore, target: FileStore, names: Iterable[tuple[str, str]]) -> int:
    """Copies files one after the other; each pair has the old and the new name. Returns their size."""
    size = 0
    with tempfile.TemporaryDirectory(prefix="beam-savepoint-") as folder:
        for old, new in names:
            part = Path(folder) / "part"
            try:
                size += source.fetch_file(old, part)
            except MissingFileError as error:
                raise SavepointError(
                    "a data file of the stream is missing, perhaps because the stream ended: "
                    f"{error}"
                ) from error
            target.put_file(new, part)
            part.unlink()
    return size


def _open_store(url: str) -> FileStore:
    try:
        spec = parse_user_store(url)
    except ValueError as error:
        raise SavepointError(str(error)) from error
    return spec.open_store()


def _file_exists(store: FileStore) -> bool:
    try:
        store.read_file(_DESCRIPTION)
    except MissingFileError:
        return False
    return True
