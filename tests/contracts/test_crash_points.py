"""Test that the crash points of ``tests/kills`` name methods that exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOOKS = Path(__file__).parents[1] / "kills" / "hooks"
IMPORT_PATCHED_MODULES = """
import importlib, sitecustomize
for name in sitecustomize._PATCHES:
    importlib.import_module(name)
"""


def test_each_crash_point_patches_an_existing_method(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(HOOKS), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_PATCHED_MODULES],
        env={**os.environ, "PYTHONPATH": path, "BEAM_KILL_POINTS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
