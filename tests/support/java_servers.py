"""Shared parts of third-party Java servers: their classes, which Maven fetches once, and their start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for programs with little work."""


def reason_not_to_run() -> str:
    """Returns why a third-party Java server can't run on this machine; empty if it can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not found" if missing else ""


def fetch_class_path(pom: Path, folder: Path) -> str:
    """Returns the class path of a pom; skips the test if the classes can't be fetched or run.

    Args:
        pom: Maven project with the dependencies.
        folder: folder for the files of Maven.
    """
    if reason := reason_not_to_run():
        pytest.skip(f"NOT RUN: {reason}")
    listed = folder / "classpath"
    command = ("mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listed}")
    subprocess.run(command, cwd=pom.parent, check=True, timeout=1800)
    return listed.read_text(encoding="utf-8").strip()
