"""A folder that all machines have under one path, and may write, as one of a server of files that each of them has mounted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
from job_server import files_in


@attrs.frozen
class SharedFolder:
    """It stands for a store, and can't be away.

    Attributes:
        folder: its path.
        environment: what programs need to know to use it.
    """

    folder: Path
    environment: Mapping[str, str] = attrs.field(factory=dict)

    def place(self, prefix: str) -> str:
        """The path of a part of it."""
        return str(self.folder / prefix)

    def names(self, prefix: str) -> list[str]:
        """All files below a part of it."""
        return [str(path) for path in files_in(self.folder / prefix)]
