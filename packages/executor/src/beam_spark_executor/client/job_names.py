"""Default names of jobs."""

from __future__ import annotations

import sys
import time
from pathlib import Path


def make_default_job_name() -> str:
    """Returns the program's name and the time, such as ``wordcount-20260131-235959``."""
    return f"{_get_program_name()}-{time.strftime('%Y%m%d-%H%M%S')}"


def _get_program_name() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)  # set for programs that run with `python -m`
    if spec is not None:
        name = spec.name.removesuffix(".__main__")
        return str(name).rpartition(".")[2]
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "interactive"
