"""Tests that the import of a package loads no other module, so that only imports of modules load modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {path.name: path for path in sorted(ROOT.glob("packages/*/src/*")) if path.is_dir()}
OLD_NAMES = "beam_spark_executor.io"
"""Pickled pipelines name the modules of this package, so the package loads them."""
SCRIPT = """
import importlib, sys
sys.path[:0] = sys.argv[1].split(":")
known = set(sys.modules)
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*sorted(set(sys.modules) - known))
"""


def folders_of(package: Path) -> list[str]:
    """Returns the import names of a package and of the folders in it."""
    folders = [path.parent.relative_to(package.parent) for path in package.rglob("__init__.py")]
    return sorted(".".join(folder.parts) for folder in folders)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_import_loads_no_other_module(package: str) -> None:
    names = [name for name in folders_of(PACKAGES[package]) if name != OLD_NAMES]
    sources = ":".join(str(path.parent) for path in PACKAGES.values())
    # Without site-packages an import of a library fails, too.
    command = [sys.executable, "-I", "-S", "-c", SCRIPT, sources, *names]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    standard = sys.stdlib_module_names
    loaded = [name for name in ran.stdout.split() if name.partition(".")[0] not in standard]
    assert loaded == names
