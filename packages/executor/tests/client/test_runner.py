from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.stager import Stager
from apache_beam.runners.runner import create_runner
from beam_runner_runtime.client_folder import ClientFolder

import beam_spark_executor
from beam_spark_executor.client import runner as runner_module
from beam_spark_executor.client.runner import BeamSparkRunner
from beam_spark_executor.client.submission import Submission


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Mocks the server, and returns a list that gets an entry for each wait for a result."""
    found: list[bool] = []

    class Result:
        def __init__(self, *arguments: Any, **more: Any) -> None:
            pass

        def wait_until_finish(self) -> None:
            found.append(True)

    monkeypatch.setattr(runner_module, "get_server_for_options", Mock())
    monkeypatch.setattr(runner_module, "BeamSparkResult", Result)
    monkeypatch.setattr(PortableRunner, "run_portable_pipeline", Mock())
    return found


def test_runner_is_found_by_its_name() -> None:
    assert isinstance(create_runner("beam_spark_executor.BeamSparkRunner"), BeamSparkRunner)
    with pytest.raises(AttributeError, match="has no attribute 'Runner'"):
        _ = beam_spark_executor.Runner


def test_pipeline_runs_while_program_continues(waited: list[bool]) -> None:
    beam.Pipeline(runner=BeamSparkRunner()).run()
    assert waited == []


@pytest.mark.parametrize(("flags", "waits"), [([], [True]), (["--streaming"], [])])
def test_interactive_runner_reads_finished_bounded_collections(
    flags: list[str], waits: list[bool], waited: list[bool]
) -> None:
    runner = BeamSparkRunner()
    InteractiveRunner(underlying_runner=runner)
    beam.Pipeline(runner=runner, options=PipelineOptions(flags)).run()
    assert waited == waits


@pytest.mark.parametrize(
    ("flags", "is_listed"),
    [
        ([], False),
        (["--experiments=one"], False),
        (["--environment_type=DOCKER"], True),
        (["--environment_type=PROCESS", '--environment_config={"command": "boot"}'], True),
    ],
)
def test_installed_packages_are_listed_only_for_environments_that_need_list(
    flags: list[str], is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Mock(return_value=[])
    monkeypatch.setattr(Stager, "_create_stage_submission_env_dependencies", listed)
    flags = ["--runner=beam_spark_executor.BeamSparkRunner", *flags]
    options = PipelineOptions(flags)
    BeamSparkRunner().default_environment(options)
    assert listed.called == is_listed
    assert (
        options.view_as(DebugOptions).experiments
        == PipelineOptions(flags).view_as(DebugOptions).experiments
    )


def test_submitted_options_name_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service = Mock(**{"DescribePipelineOptions.return_value.options": []})
    sent = Submission(service, PipelineOptions([]), own_server=False).get_pipeline_options()

    folder = ClientFolder.from_job_options(dict(sent))
    assert folder is not None
    assert folder.path == str(tmp_path)
    assert folder.is_reachable(resumed=False)


def test_submitted_options_have_the_requested_variables_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("NOT_REQUESTED", "2")
    service = Mock(**{"DescribePipelineOptions.return_value.options": []})
    options = PipelineOptions(["--beam_spark_env=MINE", "--beam_spark_env=OTHER=3"])
    sent = Submission(service, options, own_server=False).get_pipeline_options()

    assert list(sent["beam:option:beam_spark_env:v1"]) == ["MINE=1", "OTHER=3"]
    assert "NOT_REQUESTED" not in str(sent)


def test_refused_pipeline_is_reported_without_frames_of_grpc() -> None:
    class Refusal(grpc.RpcError):
        def details(self) -> str:
            return "job a was rejected: the reason"

    service = Mock(**{"DescribePipelineOptions.return_value.options": []})
    service.Prepare.side_effect = Refusal()
    submission = Submission(service, PipelineOptions([]), own_server=False)
    with pytest.raises(RuntimeError, match="^job a was rejected: the reason$") as told:
        submission.submit(beam.Pipeline().to_runner_api())
    assert "Refusal" not in "".join(traceback.format_exception(told.value))
