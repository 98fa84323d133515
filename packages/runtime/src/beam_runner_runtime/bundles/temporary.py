"""The folder for temporary files of a worker process; the server removes it after the process exits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirect_temporary_files(folder: Path) -> Iterator[None]:
    """Redirects temporary files to a folder that the server removes after this process exits.

    A harness stores staged files in a temporary folder and removes that folder on close, but a
    killed process closes nothing. The parent of ``folder`` must exist. If this function created the
    job's folder, that folder could outlive the job.
    """
    folder.mkdir(exist_ok=True)
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = usual
