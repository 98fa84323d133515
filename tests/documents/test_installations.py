"""Tests that the documented installation commands work in an empty virtual environment with network access."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, Category, categorize_block, list_pages, read_blocks, read_table

SECONDS = 1_500
TABLE = read_table()
INSTALLATIONS = {
    block.text: page
    for page in list_pages()
    for block in read_blocks(page)
    if categorize_block(block, TABLE) is Category.INSTALLATION
}
_LINKED = ("packages", "pyproject.toml")


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("text", INSTALLATIONS, ids=INSTALLATIONS.values())
def test_installation_commands_of_page_install_the_packages(text: str, tmp_path: Path) -> None:
    for name in _LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    removed = ("PYTHONPATH", "PIP_CONSTRAINT")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    run(text)
    run("pip check")
    assert "beam-runner-server" in run("pip list")
    assert "--job-port" in run("beam-runner-jobserver --help")
    if "packages/*" in text:
        assert "Beam" in run("beam-spark-jobserver --version")
