"""Tests that the workflows run the default nox sessions, and that a skipped session fails its job."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

import noxfile
from tools import check_skips, nox_benchmarks, nox_others, nox_slow
from tools.nox_support import PACKAGES

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"


def jobs_of(workflow: str) -> dict[str, Any]:
    """Returns the jobs of a workflow by their ids."""
    text = (WORKFLOWS / workflow).read_text(encoding="utf-8")
    jobs: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return jobs


def sessions_of(workflow: str) -> Iterator[str]:
    """Yields the sessions in the jobs of a workflow, also from their matrices."""
    for job in jobs_of(workflow).values():
        matrix = job.get("strategy", {}).get("matrix", {})
        named = (
            *matrix.get("sessions", ()),
            *(row["sessions"] for row in matrix.get("include", ())),
        )
        for sessions in named or (job["with"]["sessions"],):
            yield from sessions.split()


def test_ci_workflow_runs_each_default_nox_session_once() -> None:
    assert sorted(sessions_of("ci.yml")) == sorted(noxfile.IN_CI)


def test_nox_sessions_marked_as_waiting_are_sessions_of_ci() -> None:
    waiting = {name.partition("(")[0] for name in noxfile.WAITING}
    assert waiting <= set(noxfile.IN_CI)


def test_nightly_workflow_names_only_existing_sessions() -> None:
    known = {
        name for module in (noxfile, nox_benchmarks, nox_others, nox_slow) for name in vars(module)
    }
    assert set(sessions_of("nightly.yml")) <= known


def test_ci_workflow_runs_unit_tests_on_each_supported_python_version() -> None:
    assert jobs_of("ci.yml")["unit"]["strategy"]["matrix"]["python"] == [
        "3.11",
        "3.12",
        "3.13",
        "3.14",
    ]


@pytest.mark.parametrize(("result", "status"), [("success", 0), ("skipped", 1)])
def test_skip_check_fails_for_a_skipped_session(tmp_path: Path, result: str, status: int) -> None:
    report = tmp_path / "report.json"
    sessions = [{"name": "lint", "result": "success"}, {"name": "go", "result": result}]
    report.write_text(json.dumps({"result": 1, "sessions": sessions}))
    assert check_skips.main(str(report)) == status
    assert check_skips.find_skipped_sessions(report) == ["go"] * status


def test_release_workflow_has_a_tag_for_each_package() -> None:
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    tags = yaml.safe_load(text)[True]["push"]["tags"]  # YAML reads the key `on` as a truth
    assert tags == [f"{name}-v*" for name in PACKAGES]
