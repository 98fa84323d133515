"""Tests of the links to the bytecode of a compiled environment."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.bytecode import link_bytecode, make_bytecode_variables

PACKAGES = f"lib/python3.{sys.version_info.minor}/site-packages"


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """Returns an environment with two compiled modules."""
    packages = tmp_path / "compiled" / PACKAGES
    packages.mkdir(parents=True)
    for name in ("shared", "other"):
        (packages / f"{name}.py").write_text(f"NAME = {name!r}\n")
        bytecode = packages / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(packages / f"{name}.py"), str(bytecode), doraise=True)
    return tmp_path / "compiled"


@pytest.fixture
def environment(compiled: Path, tmp_path: Path) -> Path:
    """Returns an environment that has one of the modules, and another module with an equal name."""
    packages = tmp_path / "environment" / PACKAGES
    packages.mkdir(parents=True)
    (packages / "shared.py").hardlink_to(compiled / PACKAGES / "shared.py")
    (packages / "other.py").write_text("NAME = 'another'\n")
    return tmp_path / "environment"


def test_bytecode_is_linked_only_for_shared_modules(compiled: Path, environment: Path) -> None:
    assert link_bytecode(compiled, environment) == 1
    assert link_bytecode(compiled, environment) == 0


def test_linked_bytecode_is_used_by_imports(compiled: Path, environment: Path) -> None:
    link_bytecode(compiled, environment)
    program = "import shared, other; print(shared.__cached__, other.NAME)"
    done = subprocess.run(
        [sys.executable, "-v", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            **make_bytecode_variables(environment),
            "PYTHONPATH": str(environment / PACKAGES),
        },
    )
    cached, name = done.stdout.split()
    (original,) = (compiled / PACKAGES / "__pycache__").glob("shared.*")
    assert original.samefile(cached)
    assert f"{cached} matches {environment / PACKAGES / 'shared.py'}" in done.stderr
    assert name == "another"
