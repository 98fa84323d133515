"""Tests that run Beam's Java tests for runners over LOOPBACK.

``tests/validates_runner/unsupported.toml`` lists the tests that can't pass; a listed test that
passes is an error.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from job_server import JobServerProcess

UNSUPPORTED = Path(__file__).parents[1] / "validates_runner" / "unsupported.toml"
LISTED = tomllib.loads(UNSUPPORTED.read_text(encoding="utf-8"))["java"]
PACKAGE = "org.apache.beam.sdk"
CLASSES = (
    "metrics.MetricsTest$AttemptedMetricTests",
    "testing.TestStreamTest",
    "transforms.FlattenTest",
    "transforms.GroupByKeyTest$BasicTests",
    "transforms.GroupIntoBatchesTest",
    "transforms.ParDoLifecycleTest",
    "transforms.ParDoTest$BundleFinalizationTests",
    "transforms.ParDoTest$LifecycleTests",
    "transforms.ParDoTest$OnWindowExpirationTests",
    "transforms.ParDoTest$StateTests",
    "transforms.ParDoTest$TimerFamilyTests",
    "transforms.ParDoTest$TimerTests",
    "transforms.ParDoTest$TimestampTests",
    "transforms.ReshuffleTest",
    "transforms.SplittableDoFnTest",
    "transforms.ViewTest",
    "transforms.windowing.WindowTest",
)
SECONDS = 900
_OUTCOME = re.compile(
    rf"^(passed|failed|ignored) {re.escape(PACKAGE)}\.(\S+) \d+ ms$", re.MULTILINE
)


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("name", CLASSES)
def test_java_suite(server: JobServerProcess, class_path: str, name: str) -> None:
    options = (
        "--runner=ServerRunner",
        f"--jobEndpoint={server.address}",
        "--defaultEnvironmentType=LOOPBACK",
    )
    done = subprocess.run(
        [
            "java",
            f"-DbeamTestPipelineOptions={json.dumps(options)}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            *("-cp", class_path, "Suite", f"{PACKAGE}.{name}"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = {test: outcome for outcome, test in _OUTCOME.findall(done.stdout)}
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    assert "passed" in outcomes.values()
    assert failed == LISTED.keys() & outcomes.keys(), done.stdout[-20_000:]


def test_java_suite_list_matches_the_executed_tests() -> None:
    assert all(test.rpartition(".")[0] in CLASSES for test in LISTED)
