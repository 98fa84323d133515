"""Tests of replaced functions of Beam on each supported minor version of Beam."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import nox

from tools.nox_support import run_pytest

TESTS = (
    "tests/versions/test_row_functions.py",
    "packages/embedded/tests/test_function_handover.py",
)
"""Tests that fail if the harness doesn't recognize a function of Beam. Without them, only speed would change."""


def run_tests_of_minors(session: nox.Session, wheels: Path) -> None:
    """Runs the tests with each wheel of Beam in a folder, and with the dependencies of the installed Beam."""
    for wheel in sorted(wheels.glob("apache_beam-*.whl")):
        session.log(f"tests with {wheel.name}")
        with tempfile.TemporaryDirectory(prefix="minor") as folder:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            run_pytest(session, *TESTS, PYTHONPATH=folder)
