"""Whether a store does what is asked of it: tried once, when the server starts."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from pathlib import Path

from beam_runner_model.threads import run_together

from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.spec import StoreSpec

PROBE = "probe"
"""The part of a store for files by which it is tried."""
MARK = "mark"
"""The file by which workers know that a store is the one of their server."""
_BYTES = 1024
_PATIENCE_SECONDS = 5.0
_RIVALS = 8
_ROUNDS = 3


def mark(spec: StoreSpec) -> None:
    """Puts a file into a store, by which workers know it. Makes a folder, and probes any other store before.

    Raises:
        StoreError: the store can't be used; says why.
    """
    if spec.folder is not None:
        try:
            # Whoever lets others in afterwards keeps that: the mode is set only once.
            spec.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (spec.folder / MARK).touch()
        except OSError as error:
            raise StoreError(f"Can't create the folder {spec.folder}: {error.strerror}") from error
    elif spec.keeps:
        probe(spec)
        spec.open(_PATIENCE_SECONDS).create(MARK, b"")


def probe(spec: StoreSpec) -> None:
    """Writes, reads, lists and removes a little file; of no store nothing is asked.

    Raises:
        StoreError: which of them fails, and why.
    """
    if spec.keeps:
        _try(spec.within(PROBE).open(_PATIENCE_SECONDS))


def _try(store: FileStore) -> None:
    name = f"{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="beam-spark-probe-") as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(secrets.token_bytes(_BYTES))
        store.put(name, source)
        store.fetch(name, target)
        if target.read_bytes() != source.read_bytes():
            raise StoreError("the data store returns other data than was written")
        if name not in store.names():
            raise StoreError("the data store doesn't list a written file")
        store.delete([name])
        if name in store.names():
            raise StoreError("the data store still lists a deleted file")


def probe_creation(spec: StoreSpec) -> None:
    """Has many make the same file at once, some times: one must be the first, and all others must be told so.

    Raises:
        StoreError: the store does not answer, refuses, or does not do that.
    """
    store = spec.within(PROBE).open(_PATIENCE_SECONDS)
    for _ in range(_ROUNDS):
        name = secrets.token_hex(8)
        try:
            _try_creation(store, name, spec.url)
        finally:
            with contextlib.suppress(StoreError):
                store.delete([name])


def _try_creation(store: FileStore, name: str, url: str) -> None:
    files = [secrets.token_bytes(_BYTES) for _ in range(_RIVALS)]
    made = run_together(lambda contents: store.create(name, contents), files, _RIVALS, "probe")
    # Whoever is told that the file was there may have been the first, and asked again.
    firsts = [file for file, is_first in zip(files, made, strict=True) if is_first]
    if len(firsts) > 1 or store.create(name, files[0]) or store.read(name) not in (firsts or files):
        raise StoreError(
            f"{url} lets several servers create the same file: the store ignores"
            " If-None-Match, or its equivalent, so two servers could run the same job."
            " Set --state-dir to another store, or to a folder"
        )
