"""A file of a store as a local one, which nobody sees before it is whole."""

from __future__ import annotations

import os
from pathlib import Path

from beam_runner_storage.stores.ports import DataStore


def fetch_whole(store: DataStore, name: str, target: Path) -> int:
    """See `DataStore.fetch`: by the store's way to fetch a part."""
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    size = store.fetch_part(name, part, 0)
    os.replace(part, target)
    return size
