"""Folder for temporary files of a worker process, which the server removes after the process has exited."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirect_temporary_files(folder: Path) -> Iterator[None]:
    """Makes ``folder`` the default folder for temporary files of this process (``tempfile``).

    An SDK harness stores staged files in a temporary folder, which would remain if the process is
    killed. The server removes ``folder`` in any case. The parent of ``folder`` must exist: this
    function must not create the job's folder, because the job can have ended.
    """
    folder.mkdir(exist_ok=True)
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = usual
