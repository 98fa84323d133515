"""Large pipelines finish, and the test prints their cost. Each pipeline runs in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).with_name("cases.py")
SLOW = pytest.mark.slow


def run(tmp_path: Path, name: str, environment: str, count: int) -> dict[str, Any]:
    """Runs a case; returns its result, see ``in_process.Ran``."""
    command = [sys.executable, "-P", str(CASES), name, environment, str(count), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert ended.returncode == 0, ended.stderr
    ran: dict[str, Any] = json.loads(ended.stdout)
    translated, took = ran["seconds"]
    figures = f"{translated:.1f} + {took:.1f} CPU s, {ran['peak']} MB, {ran['stages']} stages"
    print(f"{name} of {count:,}, {environment}: {figures}")
    return ran


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ("embedded", 300),
        pytest.param("embedded", 5000, marks=SLOW),
        pytest.param("EXTERNAL", 5000, marks=SLOW),
    ],
)
def test_long_chain_of_maps_gives_exact_results(
    tmp_path: Path, environment: str, count: int
) -> None:
    """Stages are split at 100 transforms, so that no SDK overflows its stack. The embedded SDK overflows at 190."""
    ran = run(tmp_path, "chain", environment, count)
    assert ran["failure"] == ""
    assert ran["stages"] >= count // 100


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ("EXTERNAL", 300),
        pytest.param("EXTERNAL", 2000, marks=SLOW),
        pytest.param("embedded", 100_000, marks=SLOW),
    ],
)
def test_many_timers_of_one_key_fire_once_each(
    tmp_path: Path, environment: str, count: int
) -> None:
    """Over the Fn API each timer needs an SDK bundle, because it can change the next timer."""
    ran = run(tmp_path, "timers", environment, count)
    assert ran["failure"] == ""
    each = 0.012 if environment == "EXTERNAL" else 0.003
    assert ran["seconds"][1] < 1 + each * count


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["embedded", "EXTERNAL"])
@pytest.mark.parametrize(("name", "count"), [("branches", 2000), ("side_inputs", 1000)])
def test_pipeline_with_many_similar_transforms_gives_exact_results(
    tmp_path: Path, name: str, count: int, environment: str
) -> None:
    """Beam's client alone would need minutes to build the transforms, so the test copies them."""
    assert run(tmp_path, name, environment, count)["failure"] == ""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("sessions", 300),
        pytest.param("sessions", 83_300, marks=SLOW),
        pytest.param("sliding", 86_400, marks=SLOW),
        pytest.param("keys", 100_000, marks=SLOW),
        pytest.param("outputs", 1000, marks=SLOW),
    ],
)
def test_pipeline_with_many_windows_keys_and_outputs_gives_exact_results(
    tmp_path: Path, name: str, count: int
) -> None:
    assert run(tmp_path, name, "embedded", count)["failure"] == ""


@pytest.mark.slow
def test_create_with_millions_of_elements_gives_exact_results(tmp_path: Path) -> None:
    assert run(tmp_path, "create", "embedded", 2_000_000)["failure"] == ""
