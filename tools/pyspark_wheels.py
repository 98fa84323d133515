"""Builds wheels of PySpark in parallel, because PyPI has sources only: ``python pyspark_wheels.py
FOLDER REQUIREMENT ...``.

Each build uses one core most of the time, so two builds take as long as one build. Needs ``pip``,
``setuptools`` and ``wheel``.
"""

from __future__ import annotations

import subprocess
import sys

# Don't compress jars, which are already compressed: this takes most of the time, and saves only a
# tenth of the size.
_STORED = "--config-settings=--build-option=--compression=stored"
_PIP = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", _STORED, "--wheel-dir")


def main(folder: str, *requirements: str) -> int:
    """Builds all PySpark wheels in parallel; returns 1 if a build fails."""
    running = [subprocess.Popen([*_PIP, folder, requirement]) for requirement in requirements]
    codes = [process.wait() for process in running]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
