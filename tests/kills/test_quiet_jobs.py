"""Tests that a successful job leaves no warning, error, traceback or gRPC ``goaway`` in any log.

CI doesn't run this test: on a busy machine, Spark warns of tasks that finish late.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import Importance
from jobs import Pipelines
from lives import Lives, lives

pytestmark = pytest.mark.slow
LOUD = re.compile(r"\b(WARN|WARNING|ERROR|CRITICAL|FATAL)\b|Traceback|Exception\b|(?i:goaway)")
# Messages of Beam's own harness for every job.
OF_HARNESSES = ("No session file found", "Discarding unparseable args")


def good(pipeline: beam.Pipeline) -> None:
    """Builds a pipeline with shuffles and a side input."""
    side = beam.pvalue.AsDict(pipeline | "side" >> beam.Create([("a", 1)]))
    pairs = pipeline | beam.Create([("a", n) for n in range(100)]) | beam.Reshuffle()
    sums = pairs | beam.CombinePerKey(sum) | beam.Map(lambda p, d: p[1] + d[p[0]], side)
    assert_that(sums, equal_to([4951]))


def test_successful_jobs_log_no_warning(
    temporary: Path,
    tmp_path: Path,
    pipelines_of: Callable[[Lives, str], Pipelines],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with lives(temporary, tmp_path / "state") as running:
        before = len(running.server.log)
        capfd.readouterr()
        for environment in ("embedded", "LOOPBACK", "PROCESS"):
            pipelines = pipelines_of(running, environment)
            pipeline = pipelines.new()
            good(pipeline)
            caplog.clear()
            with caplog.at_level(logging.INFO):
                job = pipelines.job(pipeline)
                job.result.wait_until_finish()
            said = [m.text for m in job.messages() if m.importance >= Importance.WARNING]
            said += [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
            if environment == "PROCESS":
                said = [text for text in said if not text.startswith(OF_HARNESSES)]
            assert said == []
        running.server.wait_until_idle()
        assert [line for line in running.server.log[before:] if LOUD.search(line)] == []
        shown = "".join(capfd.readouterr())
        loud = [line for line in shown.splitlines() if LOUD.search(line)]
        # Harnesses of a PROCESS have the console of the server.
        assert [line for line in loud if not any(text in line for text in OF_HARNESSES)] == []
