"""Whether a store does what is asked of it: tried once, when the server starts."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from beam_spark_executor.stores.ports import DataStore, StoreError
from beam_spark_executor.stores.spec import StoreSpec

_BYTES = 1024
_PATIENCE_SECONDS = 5.0


def probe(spec: StoreSpec) -> None:
    """Writes, reads, lists and removes a little file; of no store nothing is asked.

    Raises:
        StoreError: which of them fails, and why.
    """
    if spec.keeps:
        _try(spec.within("probe").open(_PATIENCE_SECONDS))


def _try(store: DataStore) -> None:
    name = f"{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="beam-spark-probe-") as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(secrets.token_bytes(_BYTES))
        store.put(name, source)
        store.fetch(name, target)
        if target.read_bytes() != source.read_bytes():
            raise StoreError("the store of data gives back something else than it was given")
        if name not in store.names():
            raise StoreError("the store of data does not list what it was given")
        store.delete([name])
        if name in store.names():
            raise StoreError("the store of data still lists what was removed")
