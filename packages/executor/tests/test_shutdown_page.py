"""Tests that the shutdown page has the detectors of the runtime and of the executor."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from beam_runner_runtime.shutdown.detections import Detector

from beam_spark_executor.spark.shutdown import (
    SPARK_LIMITS,
    SPARK_TRANSITIONS,
    DaemonState,
    ExecutorState,
    JavaState,
    SparkDetector,
)

TOOL = Path(__file__).parents[3] / "tools" / "shutdown_page.py"


def test_shutdown_page_equals_detectors() -> None:
    done = subprocess.run([sys.executable, TOOL], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_spark_transitions_are_unique_and_leave_every_state_but_gone() -> None:
    pairs = [(row.before, row.cause) for row in SPARK_TRANSITIONS]
    assert len(set(pairs)) == len(pairs)
    states = {one for kind in (JavaState, DaemonState, ExecutorState) for one in kind}
    left = {row.before for row in SPARK_TRANSITIONS}
    assert {state for state in states if state.name != "GONE"} == left


def test_spark_detections_name_existing_limits() -> None:
    for one in SparkDetector:
        assert all(hasattr(SPARK_LIMITS, name) for name in one.value.limits), one


def test_shutdown_page_detectors_name_existing_modules() -> None:
    for one in (*Detector, *SparkDetector):
        module = one.value.component.partition(" ")[0]
        if "." in module:
            first, _, rest = module.partition(".")
            packages = ("beam_spark_executor", "beam_runner_runtime", f"beam_runner_{first}")
            names = [f"{package}.{module}" for package in packages[:2]] + [f"{packages[2]}.{rest}"]
            assert any(_exists(name) for name in names), one


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
