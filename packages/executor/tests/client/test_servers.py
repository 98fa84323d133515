from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_spark_executor.client import servers
from beam_spark_executor.client.server_process import (
    ServerNotStarted,
    ServerProcess,
    _remove_spark_variables,
)
from beam_spark_executor.client.servers import ExternalServer, get_server_for_options


class Fake:
    """A fake server process."""

    def __init__(self, flags: Sequence[str]) -> None:
        self.flags = flags
        self.is_alive = True
        self.ended = False

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def _without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "ServerProcess", Fake)
    monkeypatch.setattr(servers, "_servers", {})
    monkeypatch.setattr(servers, "_start_in_process_server", lambda flags: None)


def test_job_endpoint_of_existing_server_is_used_unchanged() -> None:
    assert get_server_for_options(PipelineOptions(["--job_endpoint=h:1"])) == ExternalServer("h:1")
    assert servers._servers == {}


def test_pipelines_with_equal_flags_share_one_server() -> None:
    first = get_server_for_options(PipelineOptions([]))
    assert get_server_for_options(PipelineOptions(["--streaming"])) is first
    assert get_server_for_options(PipelineOptions(["--spark_master_url=local"])) is not first


def test_server_that_exited_is_started_again() -> None:
    first = servers.find_or_start_server(())
    first.is_alive = False  # type: ignore[misc]
    assert servers.find_or_start_server(()) is not first


def test_pipeline_with_different_import_path_starts_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = servers.find_or_start_server(())
    monkeypatch.syspath_prepend("/elsewhere")
    assert servers.find_or_start_server(()) is not first


def test_server_whose_start_extends_the_import_path_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(flags: Sequence[str]) -> Fake:
        monkeypatch.syspath_prepend("/files-of-spark")
        return Fake(flags)

    monkeypatch.setattr(servers, "_start_in_process_server", start)
    first = servers.find_or_start_server(())
    assert servers.find_or_start_server(()) is first


def test_forked_process_does_not_stop_servers_of_its_parent() -> None:
    servers.find_or_start_server(())
    child = os.fork()
    if child == 0:
        os._exit(len(servers._servers))
    assert os.waitpid(child, 0)[1] == 0
    assert len(servers._servers) == 1


@pytest.mark.timeout(120)
def test_server_start_with_wrong_flag_raises_one_sentence() -> None:
    with pytest.raises(ServerNotStarted, match="did not start: unknown flag --wrong"):
        ServerProcess(["--wrong"])


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--beam_spark_conf=memory", "--beam_spark_conf: expected KEY=VALUE"),
        ("--spark_master_url=spark:/h", "--spark_master_url: 'spark:/h' is not a Spark master URL"),
    ],
)
@pytest.mark.timeout(120)
def test_server_start_error_names_wrong_pipeline_option(
    option: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "ServerProcess", ServerProcess)
    with pytest.raises(ServerNotStarted, match=f"did not start: argument {told}") as error:
        get_server_for_options(PipelineOptions([option]))
    assert "beam-spark-jobserver" not in str(error.value)


def test_server_in_same_process_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Fake(())
    monkeypatch.setattr(servers, "_start_in_process_server", lambda flags: here)
    assert servers.find_or_start_server(()) is here
    assert servers.find_or_start_server(()) is here


def test_environment_of_server_process_has_no_spark_variables_of_program() -> None:
    program = {"PYSPARK_GATEWAY_PORT": "1", "SPARK_REMOTE": "sc://h", "HOME": "/h"}
    assert _remove_spark_variables(program) == {"HOME": "/h"}
