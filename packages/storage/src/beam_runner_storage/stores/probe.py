"""Checks of a store's behavior, which the server runs once when it starts."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from pathlib import Path

from beam_runner_model.threads import run_concurrently

from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.spec import StoreSpec

PROBE = "probe"
"""Prefix of the files that the checks create."""
MARK = "mark"
"""Name of the mark file, by which workers recognize the store of their server."""
_BYTES = 1024
_PATIENCE_SECONDS = 5.0
_RIVALS = 8
_ROUNDS = 3


def create_marker_file(spec: StoreSpec) -> None:
    """Creates the marker file by which workers recognize a store.

    Creates the folder if the store is a folder. Otherwise probes the store first.

    Raises:
        StoreError: The store isn't usable; the text has the reason.
    """
    if spec.folder is not None:
        try:
            # Set the file mode only when the file is created, so that later changes by the user
            # stay.
            spec.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (spec.folder / MARK).touch()
        except OSError as error:
            raise StoreError(f"Can't create the folder {spec.folder}: {error.strerror}") from error
    elif spec.accepts_files:
        probe_store(spec)
        spec.open_store(_PATIENCE_SECONDS).create_file(MARK, b"")


def probe_store(spec: StoreSpec) -> None:
    """Writes, reads, lists and removes a small file; does nothing without a store.

    Raises:
        StoreError: One of these operations fails; the text has the reason.
    """
    if spec.accepts_files:
        _try_store_operations(spec.with_prefix(PROBE).open_store(_PATIENCE_SECONDS))


def _try_store_operations(store: FileStore) -> None:
    name = f"{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="beam-spark-probe-") as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(secrets.token_bytes(_BYTES))
        store.put_file(name, source)
        store.fetch_file(name, target)
        if target.read_bytes() != source.read_bytes():
            raise StoreError("the data store returns other data than was written")
        if name not in store.list_names():
            raise StoreError("the data store doesn't list a written file")
        store.delete_files([name])
        if name in store.list_names():
            raise StoreError("the data store still lists a deleted file")


def probe_exclusive_creation(spec: StoreSpec) -> None:
    """Checks that exactly one of several concurrent creations of a file succeeds, in several rounds.

    Raises:
        StoreError: The store doesn't respond, refuses, or fails the check.
    """
    store = spec.with_prefix(PROBE).open_store(_PATIENCE_SECONDS)
    for _ in range(_ROUNDS):
        name = secrets.token_hex(8)
        try:
            _try_exclusive_creation(store, name, spec.url)
        finally:
            with contextlib.suppress(StoreError):
                store.delete_files([name])


def _try_exclusive_creation(store: FileStore, name: str, url: str) -> None:
    files = [secrets.token_bytes(_BYTES) for _ in range(_RIVALS)]
    made = run_concurrently(
        lambda contents: store.create_file(name, contents), files, _RIVALS, "probe"
    )
    # A creation that returns False may still have created the file, if the response was lost and
    # the client retried the request.
    firsts = [file for file, is_first in zip(files, made, strict=True) if is_first]
    if (
        len(firsts) > 1
        or store.create_file(name, files[0])
        or store.read_file(name) not in (firsts or files)
    ):
        raise StoreError(
            f"{url} lets several servers create the same file: the store ignores"
            " If-None-Match, or its equivalent, so two servers could run the same job."
            " Set --state-dir to another store, or to a folder"
        )
