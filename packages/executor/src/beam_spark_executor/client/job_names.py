"""The name that a job has where its user has given none."""

from __future__ import annotations

import sys
import time
from pathlib import Path


def job_name() -> str:
    """The name of the program that is run and the time, as in ``wordcount-20260131-235959``."""
    return f"{_program()}-{time.strftime('%Y%m%d-%H%M%S')}"


def _program() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)  # there for what runs by `python -m`
    if spec is not None:
        name = spec.name.removesuffix(".__main__")
        return str(name).rpartition(".")[2]
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "interactive"
