"""Execution of docs/tutorial/first-pipeline.md: writes each file, runs each command, compares each output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import attrs
import pytest
from free_ports import find_free_ports

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-pipeline.md"
_BLOCK = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILES = re.compile(r"\b[a-z]+\.py\b")


@attrs.frozen
class Block:
    """Code block of the page: `role` is the text after its language."""

    language: str
    role: str
    text: str


def blocks() -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))]


def test_tutorial_code_blocks_have_a_known_role() -> None:
    found = blocks()
    assert len(found) > 15
    for block in found:
        roles = {
            "sh": ("", "install", "fails", "server"),
            "text": ("output", "part"),
        }
        if block.language == "python":
            assert _FILES.fullmatch(block.role), block
            compile(block.text, block.role, "exec")
        else:
            assert block.role in roles[block.language], block


def test_tutorial_installs_only_existing_packages() -> None:
    (install,) = [block.text for block in blocks() if block.role == "install"]
    (pattern,) = re.findall(r"\./(\S+)", install)
    folders = list(ROOT.glob(pattern))
    assert len(folders) == 13
    assert all((folder / "pyproject.toml").exists() for folder in folders)


def test_tutorial_files_are_shown_before_they_are_run() -> None:
    known: set[str] = set()
    for block in blocks():
        if block.language == "python":
            known.add(block.role)
        elif block.language == "sh":
            assert known >= set(_FILES.findall(block.text)), block


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_tutorial_commands_run_in_order(program: Any) -> None:
    ports = dict(zip(("8099", "8074"), map(str, find_free_ports(2)), strict=True))
    last, server = "", None
    try:
        for block in blocks():
            text = re.sub("|".join(ports), lambda found: ports[found[0]], block.text)
            if block.language == "python":
                program.write(block.role, text)
            elif block.role == "server":
                server = program.start("-c", f"exec {text}", command=_shell(program))
                _wait_for_pages(f"http://localhost:{ports['8074']}/healthz", server)
            elif block.role == "output":
                assert last.endswith(text), (text, last)
            elif block.role == "part":
                assert text.strip() in last, (text, last)
            elif block.role != "install":
                code, last = program.run("-ec", text, command=_shell(program), seconds=300)
                assert (code == 0) is (block.role != "fails"), (text, last)
        assert '"prices"' in _get(f"http://localhost:{ports['8074']}/api/v1/jobs")
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=120)


def _shell(program: Any) -> tuple[str, ...]:
    """Starts a shell in which this virtual environment is active."""
    folder = Path(sys.executable).parent
    path = f"PATH={folder}{os.pathsep}{os.environ['PATH']}"
    return ("env", path, f"PYSPARK_PYTHON={sys.executable}", "bash")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def _wait_for_pages(url: str, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while True:
        try:
            _get(url)
            return
        except OSError:
            assert server.poll() is None, server.stdout.read() if server.stdout else ""
            assert time.monotonic() < deadline
            time.sleep(0.5)
