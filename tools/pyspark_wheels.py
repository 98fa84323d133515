"""Makes wheels of PySpark, of which PyPI has sources only, side by side: ``python pyspark_wheels.py FOLDER REQUIREMENT ...``.

Each takes a core for most of its time, so that two take as long as one. Needs ``pip``, ``setuptools`` and ``wheel``.
"""

from __future__ import annotations

import subprocess
import sys

# Jars are compressed already. Compressing them again takes most of the build's time and saves a tenth of the size.
_STORED = "--config-settings=--build-option=--compression=stored"
_PIP = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", _STORED, "--wheel-dir")


def main(folder: str, *requirements: str) -> int:
    """Makes all of them; 1 if one can't be made."""
    running = [subprocess.Popen([*_PIP, folder, requirement]) for requirement in requirements]
    codes = [process.wait() for process in running]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
