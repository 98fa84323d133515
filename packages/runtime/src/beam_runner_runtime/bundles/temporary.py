"""Where a worker process has its temporary files: the server removes them once it has ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Lets temporary files be made in a folder that the server removes once this process has ended.

    A harness keeps staged files in one of its own and removes it when it is closed; but a process
    that is killed never closes anything. The job's folder is there: one that made it would outlive the
    job where it goes on after its end.
    """
    folder.mkdir(exist_ok=True)
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = usual
