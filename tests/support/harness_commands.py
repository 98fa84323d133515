"""Commands that start SDK harnesses."""

from __future__ import annotations

import sys
from pathlib import Path


def boot_command(folder: Path) -> Path:
    """A command for PROCESS environments: the worker's own boot program, run by this interpreter."""
    command = folder / "boot"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m beam_runner_worker.fnapi.boot "$@"\n')
    command.chmod(0o755)
    return command
