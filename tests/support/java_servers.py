"""What tests of servers of others in Java share: their classes, which Maven fetches once, and how they are begun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java's options for what does little."""


def reason_not_to() -> str:
    """Why no such server can be had here; empty if one can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not found" if missing else ""


def class_path(pom: Path, folder: Path) -> str:
    """Where the classes are that a pom names; skips the test where they can't be had, or run.

    Args:
        pom: what is wanted.
        folder: for what Maven writes.
    """
    if reason := reason_not_to():
        pytest.skip(f"NOT RUN: {reason}")
    listed = folder / "classpath"
    command = ("mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listed}")
    subprocess.run(command, cwd=pom.parent, check=True, timeout=1800)
    return listed.read_text(encoding="utf-8").strip()
