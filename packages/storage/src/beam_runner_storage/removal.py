"""Removal of folders into which other processes may still write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ATTEMPTS = 5
"""Number of attempts to empty a folder. A process that exits, or its parent, writes a few files at most."""


def remove_tree(folder: Path) -> bool:
    """Removes a folder with its content, and raises no errors.

    A file that another process writes during the removal keeps the folder from being removed.
    Therefore, the function tries a few times.

    Args:
        folder: a folder, which may be missing.

    Returns:
        whether the folder is gone.
    """
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return True
    return False
