"""Installs clients: Python SDKs with the interpreters that are to be had, programs of Go SDKs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from services import run_service

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE)}
"""Of clients and their workers: they find the pipelines."""
INSTALL_SECONDS = 1200
_UV = (sys.executable, "-m", "uv")
# Build requirements of the sources that old versions of Beam need, and imports of these sources.
_OLD_SETUPTOOLS = "setuptools<81"


class Clients:
    """Clients in a folder that is a cache for later sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)

    def python(self, beam: str, python: str) -> Path:
        """Returns the interpreter of an environment with a version of Beam; skips the test if it can't be installed."""
        folder = self._folder / f"python-{beam}-{python}"
        interpreter = folder / "bin" / "python"
        if not (folder / "done").exists():
            made = _run(*_UV, "venv", "--clear", "--python", python, str(folder))
            if made.returncode:
                pytest.skip(f"NOT RUN: there is no Python {python}: {made.stderr.splitlines()[-1]}")
            constraints = self._folder / "build.txt"
            constraints.write_text(_OLD_SETUPTOOLS)
            into = ("pip", "install", "--python", str(interpreter))
            with_old = ("--build-constraint", str(constraints), _OLD_SETUPTOOLS)
            done = _run(*_UV, *into, *with_old, f"apache-beam=={beam}.*")
            assert done.returncode == 0, done.stderr[-2000:]
            (folder / "done").touch()
        return interpreter

    def go(self, beam: str) -> Path:
        """Returns the program of the Go pipelines; skips the test without Go."""
        if shutil.which("go") is None:
            pytest.skip("NOT RUN: there is no Go")
        folder = self._folder / f"go-{beam}"
        program = folder / "client"
        if not program.exists():
            folder.mkdir(exist_ok=True)
            needed = f"require github.com/apache/beam/sdks/v2 v{beam}.0"
            (folder / "go.mod").write_text(f"module client\n\ngo 1.26\n\n{needed}\n")
            shutil.copy(HERE / "go" / "main.go", folder)
            done = _run("go", "build", "-mod=mod", "-o", str(program), ".", cwd=folder)
            assert done.returncode == 0, done.stderr[-2000:]
        return program


def worker_pool(*command: str) -> AbstractContextManager[str]:
    """Runs a worker pool of a client for the block, and yields its address."""
    # Beam's pool starts its workers by the name "python".
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    return run_service(command, "--service_port=", {**ENVIRONMENT, "PATH": path})


def _run(*command: str, cwd: Path = HERE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
