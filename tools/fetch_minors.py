"""Downloads a wheel of each minor version of Beam that the executor's bounds allow.

What is in the folder stays. Nothing is installed, nor anything that Beam depends on fetched.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "packages" / "executor" / "pyproject.toml"
PIP = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet")


def minors() -> list[str]:
    """The minor versions of Beam that are allowed, such as ``2.72``."""
    needed = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    (bounds,) = (text for text in needed if text.startswith("apache-beam"))
    major, first, after = map(int, re.findall(r">=(\d+)\.(\d+).*<\d+\.(\d+)", bounds)[0])
    return [f"{major}.{minor}" for minor in range(first, after)]


def fetch(folder: Path) -> list[Path]:
    """The wheels in a folder, after those that are lacking are downloaded."""
    lacking = [minor for minor in minors() if not list(folder.glob(f"apache_beam-{minor}.*"))]

    def download(minor: str) -> None:
        subprocess.run([*PIP, "--dest", str(folder), f"apache-beam=={minor}.*"], check=True)

    # Most of each download is waiting.
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(download, lacking))
    return sorted(folder.glob("apache_beam-*.whl"))
