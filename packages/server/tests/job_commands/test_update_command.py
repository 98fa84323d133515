"""Tests that the commands `update` and `describe` print which jobs replace each other."""

from __future__ import annotations

import json
import time

import pytest
from beam_runner_model.jobs import JobState
from beam_runner_model.shadows import ShadowReport, StepComparison, StepOutcome
from beam_runner_model.successions import RollbackRequest, Succession
from beam_runner_model.updates import Finding, FindingReason, FindingVerdict, UpdateReport

from .conftest import FakeJob, FakeServer

REPORT = UpdateReport(
    (
        Finding(FindingVerdict.NEW, FindingReason.ADDED, step="Added"),
        Finding(FindingVerdict.REFUSED, FindingReason.REMOVED, step="Sums", state_bytes=5_716),
    )
)


def test_update_command_prints_latest_comparison_refusals_first(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("one")
    job.reporter.record_succession(Succession(predecessor="one-0"))
    job.reporter.record_succession(Succession(compared="one-2", report=REPORT))
    assert server.run("update", "one") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["replaced job one-0", "comparison with job one-2:"]
    assert [line.partition(":")[0] for line in lines[2:]] == ["refused", "new"]
    assert server.run("update", "--json", "one") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predecessor"] == "one-0"
    assert [one["step"] for one in found["report"]["findings"]] == ["Added", "Sums"]


def test_update_command_prints_the_latest_shadow_run(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("one")
    step = StepComparison(StepOutcome.DIFFERENT, "Write", "", 12, 13, 9000, 1000)
    shadow = ShadowReport(60.0, (step,))
    job.reporter.record_succession(Succession(compared="one-2", report=REPORT, shadow=shadow))
    assert server.run("update", "one") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("different: ")
    assert server.run("update", "--json", "one") == 0
    (found,) = json.loads(capsys.readouterr().out)["shadow"]["steps"]
    assert (found["step"], found["outcome"], found["new_elements"]) == ("Write", "different", 13)


def test_update_command_for_job_without_update_prints_that_no_update_exists(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    assert server.run("update", "one") == 0
    assert capsys.readouterr().out == "the job was compared with no other job\n"


def test_describe_command_prints_jobs_before_and_after(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("one")
    until = 1_700_000_000.0
    job.reporter.record_succession(
        Succession(predecessor="one-0", successor="one-2", program_kept_until=until)
    )
    assert server.run("describe", "one") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"replaced   one-0", "successor  one-2"} <= set(lines)
    assert "back until 2023-11-14 22:13:20 UTC" in lines
    assert server.run("jobs", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["successor"], found["program_kept_until"]) == ("one-2", until)


def replace(server: FakeServer, old: FakeJob, new: FakeJob) -> None:
    """Replaces a job by another job, and keeps its program."""
    new.reporter.record_succession(Succession(predecessor=old.job_id))
    old.reporter.record_succession(
        Succession(successor=new.job_id, program_kept_until=time.time() + 60)
    )
    old.reporter.report_state(JobState.UPDATED)


def test_update_with_flag_back_prints_report_and_new_job(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = server.submit("one"), server.submit("one")
    replace(server, old, new)
    server.succession_of_next_job = Succession(compared=new.job_id, report=REPORT)
    flags = ("--drop", "a", "--beam_spark_update_drop", "b", "--trust", "c", "--quiet", "1s")
    mapping = ("--transform_name_mapping", '{"New": "Old"}')
    assert server.run("update", "one", "--back", *flags, *mapping) == 0
    back = server.ids()[-1]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["refused", "new"]
    assert lines[2:] == [f"job {back} has replaced job {new.job_id}"]
    expected = RollbackRequest({"New": "Old"}, ("a", "b"), ("c",), "1s")
    assert server.rollbacks == [expected]


def test_update_with_flag_back_fails_if_server_refuses_rollback(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = server.submit("one"), server.submit("one")
    assert server.run("update", new.job_id, "--back") == 1
    assert "didn't replace another job" in capsys.readouterr().err
    replace(server, old, new)
    server.end_of_next_job = (JobState.FAILED, "Can't replace the job")
    assert server.run("update", new.job_id, "--back", "--json") == 1
    assert json.loads(capsys.readouterr().out)["state"] == "FAILED"


def test_update_with_flags_back_and_check_exits_with_code_0_after_check(server: FakeServer) -> None:
    old, new = server.submit("one"), server.submit("one")
    replace(server, old, new)
    server.end_of_next_job = (JobState.DONE, None)
    assert server.run("update", new.job_id, "--back", "--check") == 0
    assert server.rollbacks == [RollbackRequest(is_check=True)]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--drop", "a"), "--drop has no effect without --back"),
        (("--check",), "--check has no effect without --back"),
        (("--back", "--transform_name_mapping", "[]"), "expected a JSON object"),
        (("--back", "--transform_name_mapping", "{"), "expected a JSON object"),
    ],
)
def test_wrong_flags_of_rollback_are_refused_with_their_names(
    server: FakeServer, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], text: str
) -> None:
    server.submit("one")
    assert server.run("update", "one", *flags) == 1
    assert text in capsys.readouterr().err


def test_update_with_flag_back_for_unknown_job_fails(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.run("update", "nobody", "--back") == 1
    assert "no job 'nobody'" in capsys.readouterr().err
