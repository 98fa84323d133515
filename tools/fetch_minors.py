"""Downloads a wheel of each minor version of Beam that the executor's bounds allow.

The tool keeps existing files in the folder. It doesn't install the wheels, and doesn't download
Beam's dependencies.
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


def list_allowed_minor_versions() -> list[str]:
    """Returns the allowed minor versions of Beam, such as ``2.72``."""
    needed = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    (bounds,) = (text for text in needed if text.startswith("apache-beam"))
    major, first, after = map(int, re.findall(r">=(\d+)\.(\d+).*<\d+\.(\d+)", bounds)[0])
    return [f"{major}.{minor}" for minor in range(first, after)]


def fetch_missing_wheels(folder: Path) -> list[Path]:
    """Downloads missing wheels and returns all wheels of the folder."""
    lacking = [
        minor
        for minor in list_allowed_minor_versions()
        if not list(folder.glob(f"apache_beam-{minor}.*"))
    ]

    def download(minor: str) -> None:
        subprocess.run([*PIP, "--dest", str(folder), f"apache-beam=={minor}.*"], check=True)

    # Use threads, because downloads mostly wait for the network.
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(download, lacking))
    return sorted(folder.glob("apache_beam-*.whl"))
