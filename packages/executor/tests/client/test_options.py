from __future__ import annotations

import argparse

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from beam_runner_server.flags import parse_command_line
from beam_runner_storage.stores.spec import StoreSpec

import beam_spark_executor
from beam_spark_executor.client.options import (
    MADE_THE_SERVER,
    BeamSparkOptions,
    RequestedServer,
    find_requested_server,
    replace_flags_by_options,
)
from beam_spark_executor.program import SparkProgram
from beam_spark_executor.spark.platform import SparkPlatform


def wishes(*flags: str) -> RequestedServer:
    return find_requested_server(PipelineOptions(list(flags)))


@pytest.mark.parametrize(
    ("is_installed", "flag"), [(True, "--web-port=0"), (False, "--serve-http=false")]
)
def test_default_options_request_web_pages_if_package_is_installed(
    is_installed: bool, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, package=None: name if is_installed else None
    )
    assert wishes() == RequestedServer("", (flag,))


def test_web_port_option_off_disables_web_pages() -> None:
    assert wishes("--beam_spark_web_port=off").flags == ("--serve-http=false",)


def test_web_port_option_with_wrong_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wishes("--beam_spark_web_port=maybe")
    assert "from 0 to 65535 or off" in capsys.readouterr().err


def test_runner_options_include_all_flags_of_server_command() -> None:
    asked = wishes(
        "--spark_master_url=local[2]",
        "--beam_spark_conf=spark.a=1",
        "--beam_spark_conf=spark.b=2",
        "--beam_spark_state_dir=/s",
        "--beam_spark_data_dir=s3://bucket/prefix",
    )
    settings = parse_command_line(asked.flags, SparkProgram())
    assert isinstance(settings.platform, SparkPlatform)
    assert settings.platform.settings.master == "local[2]"
    assert settings.platform.settings.conf == {"spark.a": "1", "spark.b": "2"}
    assert str(settings.state_dir) == "/s"
    assert settings.data == StoreSpec("s3://bucket/prefix")


def test_web_port_option_is_forwarded() -> None:
    assert wishes("--beam_spark_web_port=0").flags == ("--web-port=0",)


def test_spark_master_option_is_forwarded_only_if_set_by_user() -> None:
    assert wishes("--spark_master_url=local[4]").flags[0] == "--spark-master-url=local[4]"


def test_job_endpoint_option_selects_server() -> None:
    assert wishes("--job_endpoint=h:1").endpoint == "h:1"


@pytest.mark.parametrize(
    "flag",
    [
        "--spark_master_url=local",
        "--beam_spark_state_dir=/s",
        "--beam_spark_data_dir=/d",
        "--beam_spark_web_port=1",
    ],
)
def test_job_endpoint_option_refuses_server_flags(flag: str) -> None:
    with pytest.raises(
        ValueError, match=f"^{flag.partition('=')[0]} can't change the running server"
    ):
        wishes("--job_endpoint=h:1", flag)


@pytest.mark.parametrize("option", MADE_THE_SERVER)
def test_server_flag_error_names_pipeline_option(option: str) -> None:
    value = "1" if option == "beam_spark_web_port" else "a"
    flag, _, _ = wishes(f"--{option}={value}").flags[0].partition("=")
    said = f"argument {flag}: it is wrong ({flag}-not, x{flag}); see beam-spark-jobserver --help"
    assert (
        replace_flags_by_options(said) == f"argument --{option}: it is wrong ({flag}-not, x{flag})"
    )


def test_option_names_do_not_collide_with_beam() -> None:
    parser = argparse.ArgumentParser()
    for options in PipelineOptions.__subclasses__():
        if options is not BeamSparkOptions and options.__module__.startswith("apache_beam"):
            options._add_argparse_args(parser)
    BeamSparkOptions._add_argparse_args(parser)
    assert "--beam_spark_conf" in parser.format_help()


def test_help_of_options_lists_spark_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as told:
        beam_spark_executor.BeamSparkOptions(["--help"])
    assert told.value.code == 0
    assert "--beam_spark_task_attempts N" in capsys.readouterr().out


def test_job_endpoint_option_without_port_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is 'spark-host'; expected HOST:PORT"):
        wishes("--job_endpoint=spark-host")


def test_runner_options_can_be_set_in_code() -> None:
    options = PipelineOptions([])
    options.view_as(beam_spark_executor.BeamSparkOptions).beam_spark_conf = ["spark.a=1"]
    assert find_requested_server(options).flags[0] == "--spark-conf=spark.a=1"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--beam_spark_key_shard=4",
            "did you mean --beam_spark_key_shards",
        ),
        ("--beam_spark_statedir=/s", "did you mean --beam_spark_state_dir"),
        ("--beam_spark_zzz", "expected one of beam_spark_conf, "),
        ("--beam_spark_bulk=sometimes", "'sometimes'; expected one of auto, always, never"),
        ("--beam_spark_key_shards=many", "'many'; expected a number from 2 to 4096"),
        ("--beam_spark_task_attempts=0", "'0'; expected a number from 1 to 100"),
        ("--beam_spark_env=AN_UNSET_VARIABLE", "no environment variable of this name"),
        ("--beam_spark_env=a b=1", "expected NAME=VALUE"),
        ("--beam_spark_checkpoint_interval_ms=1.5", "expected a number from 50 to 3600000"),
        ("--beam_spark_update_job=job-1", "has no effect without --update"),
        ("--beam_spark_update=now", "'now'; expected check"),
    ],
)
def test_wrong_runner_option_is_refused_before_a_server_starts(
    flag: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=f"--beam_spark.*{message}"):
        wishes(flag)
    assert capsys.readouterr().err == ""


def test_valid_job_options_and_other_options_are_accepted() -> None:
    wishes("--beam_spark_bulk=always", "--beam_spark_key_shards=4", "--mine=1")
    wishes("--update", "--beam_spark_update_job=a", "--beam_spark_update_drop=b")
    options = PipelineOptions([])
    options.view_as(BeamSparkOptions).beam_spark_key_shards = 4
    assert find_requested_server(options) is not None
