"""Tests that a pipeline that two processes build has no findings but changed code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from beam_runner_model.jobs import JobSpec
from beam_runner_model.updates import (
    FindingReason,
    FindingVerdict,
    StoredStageData,
    UpdateInstructions,
)

from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from beam_runner_planner.updates.compare import compare_plans

STREAM = Path(__file__).parents[3] / "tests" / "clients" / "updated_stream.py"
FULL = StoredStageData(elements=3, state_bytes=500, wakes=1)


def plan_of_file(file: Path) -> JobPlan:
    return plan_job(JobSpec("job-1", "sample", file.read_bytes(), {}, "{}", {}, "localhost:1"))


def test_pipeline_built_by_two_processes_has_only_changed_code_findings(tmp_path: Path) -> None:
    """Ids of schemas are random, and pickles have random ids and depend on the order of hashes."""
    writers = [
        subprocess.Popen(
            [sys.executable, STREAM, tmp_path / seed], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    old, new = (plan_of_file(tmp_path / seed) for seed in ("1", "2"))
    contents = dict.fromkeys(old.stages, FULL)
    report = compare_plans(old, new, UpdateInstructions(), contents).report
    assert {finding.verdict for finding in report.findings} == {FindingVerdict.KEPT}
    assert {finding.reason for finding in report.findings} <= {
        FindingReason.SAME,
        FindingReason.CODE_CHANGED,
    }
    assert {stage.identity.partition(":")[0] for stage in old.stages.values()} == {
        *("begin", "deal", "keyed", "stored", "lifted", "group")
    }
