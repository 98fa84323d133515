"""The systemd unit is valid, and its environment file has its variables."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server_commands import DEPLOY

UNIT = DEPLOY / "systemd" / "beam-spark.service"
ANALYZE = shutil.which("systemd-analyze") or ""


def verify(unit: Path) -> str:
    """Returns the complaints of systemd about a unit."""
    command = (ANALYZE, "verify", "--man=no", str(unit))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    mentioned = [line for line in done.stderr.splitlines() if unit.name in line or "error" in line]
    return "\n".join(mentioned) or ("" if done.returncode == 0 else done.stderr)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Returns the unit with this environment's server, because systemd looks for the program."""
    if not ANALYZE:
        pytest.skip("NOT RUN: there is no systemd-analyze on the path")
    text = UNIT.read_text(encoding="utf-8").replace("/opt/beam/bin", f"{sys.prefix}/bin")
    copy = tmp_path / UNIT.name
    copy.write_text(text, encoding="utf-8")
    return copy


def test_systemd_accepts_the_unit(unit: Path) -> None:
    assert verify(unit) == ""


def test_systemd_complains_about_a_misspelt_setting(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMod=mixed"))
    assert "KillMod" in verify(unit)


def test_each_variable_of_the_unit_is_in_its_environment_file() -> None:
    used = set(re.findall(r"\$\{?([A-Z_]+)", UNIT.read_text(encoding="utf-8")))
    defined = re.findall(r"^([A-Z_]+)=", UNIT.with_suffix(".env").read_text(), re.MULTILINE)
    assert used == set(defined)
