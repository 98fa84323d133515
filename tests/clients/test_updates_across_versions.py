"""A stream that a client of another version builds continues the stream of the current version: an
update finds no difference but the code.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
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
from installed import ENVIRONMENT, HERE, Clients
from test_clients_of_other_versions import PYTHONS, SECONDS

pytestmark = pytest.mark.timeout(2400)
FULL = StoredStageData(elements=3, state_bytes=500, wakes=1)


def plan_of(interpreter: Path, file: Path) -> JobPlan:
    """Returns the plan of the stream that a client of an interpreter builds."""
    command = [str(interpreter), str(HERE / "updated_stream.py"), str(file)]
    subprocess.run(command, check=True, timeout=SECONDS, env=ENVIRONMENT)
    return plan_job(JobSpec("job-1", "sample", file.read_bytes(), {}, "{}", {}, "localhost:1"))


@pytest.mark.parametrize(
    ("beam", "python"), [(beam, python) for beam, pythons in PYTHONS.items() for python in pythons]
)
def test_update_of_a_stream_of_another_version_reports_only_changed_code(
    clients: Clients, tmp_path: Path, beam: str, python: str
) -> None:
    old = plan_of(clients.python(beam, python), tmp_path / "old")
    new = plan_of(Path(sys.executable), tmp_path / "new")
    contents = dict.fromkeys(old.stages, FULL)
    report = compare_plans(old, new, UpdateInstructions(), contents).report
    assert {finding.verdict for finding in report.findings} == {FindingVerdict.KEPT}
    assert {finding.reason for finding in report.findings} <= {
        FindingReason.SAME,
        FindingReason.CODE_CHANGED,
    }
