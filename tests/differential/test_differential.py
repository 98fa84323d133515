"""Tests of the differential comparison for pipelines that kill their process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from build import random_spec
from differential import ORACLE, _halves, _of_the_dead
from mortal import Died
from streams import random_stream

BATCH = {f"p{number}": random_spec(f"7/{number}") for number in range(5)}
ALONE = {"p3": BATCH["p3"]}
STREAM = ("s0", random_stream("7/0", 2))


@pytest.mark.parametrize("task", [BATCH, ALONE, STREAM])
def test_differential_run_with_an_exited_environment_process_reports_a_difference(task) -> None:
    tally = _of_the_dead(task, Died("LOOPBACK"))
    (told,) = tally.differences
    assert "LOOPBACK" in told and all(
        name in told for name in (task if task is not STREAM else "s")
    )
    assert not tally.fatal


def test_differential_run_omits_a_pipeline_that_kills_the_reference_runner(
    capsys: pytest.CaptureFixture,
) -> None:
    tally = _of_the_dead(ALONE, Died(ORACLE))
    (told,) = tally.fatal
    assert "p3" in told and str(ALONE["p3"]) in told
    tally.tell()
    assert str(ALONE["p3"]) in capsys.readouterr().out
    assert not tally.differences


def test_differential_run_halves_a_batch_that_kills_the_reference_runner() -> None:
    tally = _of_the_dead(BATCH, Died(ORACLE))
    assert not (tally.fatal or tally.differences)
    assert [list(half) for half in _halves(BATCH)] == [["p0", "p1"], ["p2", "p3", "p4"]]
    assert not list(_halves(ALONE)) and not list(_halves(STREAM))
