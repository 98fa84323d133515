"""Commands that start SDK harnesses."""

from __future__ import annotations

import sys
from pathlib import Path


def boot_command(folder: Path) -> Path:
    """Returns a command for PROCESS environments: the worker's boot program, run by this interpreter."""
    command = folder / "boot"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m beam_runner_worker.fnapi.boot "$@"\n')
    command.chmod(0o755)
    return command


def environment_flags(boot: Path) -> dict[str, list[str]]:
    """Returns the pipeline options that a user gives for each environment."""
    process = ["--environment_type=PROCESS", f"--environment_options=process_command={boot}"]
    return {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"], "PROCESS": process}
