"""Access to the URL, the versions and the files of a Delta table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def locate_table(table: str) -> str:
    """Returns the URL of a table, or the absolute path of its folder."""
    return table if "://" in table else os.path.abspath(table)


def load_table(url: str, storage_options: Mapping[str, str], version: int | None = None) -> Any:
    """Returns a version of a table, by default the newest.

    Raises:
        TableNotFoundError: The table doesn't exist.
    """
    from deltalake import DeltaTable

    return DeltaTable(url, version, storage_options=dict(storage_options))


def open_storage(url: str, storage_options: Mapping[str, str]) -> Any:
    """Returns pyarrow's file system of the table's folder."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(url, dict(storage_options)))
