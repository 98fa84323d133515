"""Folder that all machines can write at the same path, like a mounted network file system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
from job_server import list_files


@attrs.frozen
class SharedFolder:
    """Folder in place of a store, without outages.

    Attributes:
        folder: path of the folder.
        environment: environment variables of clients.
    """

    folder: Path
    environment: Mapping[str, str] = attrs.field(factory=dict)

    def place(self, prefix: str) -> str:
        """Returns the path of a subfolder."""
        return str(self.folder / prefix)

    def names(self, prefix: str) -> list[str]:
        """Returns all files below a subfolder."""
        return [str(path) for path in list_files(self.folder / prefix)]
