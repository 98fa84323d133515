from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from beam_runner_runtime.job_options import Bulk
from beam_runner_storage.stores.spec import StoreSpec
from beam_spark_executor.spark.settings import SparkSettings

from beam_runner_server import flags
from beam_runner_server.flags import ServerSettings, parse


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    return error


@pytest.fixture(autouse=True)
def no_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed beside it."""
    monkeypatch.setattr(flags, "find", lambda: ())


def test_defaults() -> None:
    settings = parse([])
    assert settings == ServerSettings()
    assert (settings.job_host, settings.job_port) == ("localhost", 8099)
    assert settings.spark == SparkSettings(master=None, conf={}, log_level="warn")


def test_plain_processes_in_place_of_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--without-spark=3"]) == ServerSettings(plain_cores=3)
    assert parse(["--without-spark"]).plain_cores == os.cpu_count()
    said = "--without-spark runs jobs in plain processes of this machine: {} has no effect there"
    for flag in ("--spark-master-url=local", "--spark-conf=spark.a=1"):
        error = refusal(capsys, "--without-spark", flag)
        assert said.format(flag.partition("=")[0]) in error
    assert "a number of cores from 1 on, got '0'" in refusal(capsys, "--without-spark=0")


def test_all_flags() -> None:
    settings = parse(
        [
            *("--job-port", "0", "--job-host", "0.0.0.0", "--artifacts-dir", "/a/b"),
            *("--spark-master-url", "spark://host:7077", "--log-level", "ERROR"),
            *(
                "--state-dir",
                "/s",
                "--max-task-attempts",
                "3",
                "--on-sigterm",
                "suspend",
                "--sync-data",
            ),
            *("--spark-conf", "spark.a=1", "--spark-conf=spark.b_c=x=y", "--log-kind", "json"),
            *("--allow-remote", "--token-file", "/t", "--tls-cert=/c", "--tls-key=/k"),
            *("--tls-client-ca=/ca", "--hide-elements", "--bulk=always"),
            *("--max-stream-attempts=7", "--outage-limit=90s", "--keep-failed-streams=1d12h"),
        ]
    )
    assert settings == ServerSettings(
        job_host="0.0.0.0",
        job_port=0,
        state_dir=Path("/s"),
        sync_data=True,
        artifacts_dir=Path("/a/b"),
        on_sigterm="suspend",
        max_task_attempts=3,
        max_stream_attempts=7,
        outage_limit=90.0,
        keep_failed_streams=36 * 3600.0,
        hide_elements=True,
        bulk=Bulk.ALWAYS,
        spark=SparkSettings("spark://host:7077", {"spark.a": "1", "spark.b_c": "x=y"}, "error"),
        log_level="error",
        log_kind="json",
        allow_remote=True,
        token_file=Path("/t"),
        tls_cert=Path("/c"),
        tls_key=Path("/k"),
        tls_client_ca=Path("/ca"),
    )


def test_state_may_be_in_a_store_where_the_next_server_finds_data_too() -> None:
    settings = parse(["--state-dir=s3://bucket/state", "--data-dir=s3://bucket/data"])
    assert settings.state_dir == StoreSpec("s3://bucket/state")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--state-dir=s3://bucket/state needs a --data-dir that the next server reaches, too"),
        (
            ["--data-dir=/d", "--artifacts-dir=/a"],
            "--artifacts-dir has no effect where --state-dir",
        ),
        (["--state-dir=ftp://host/x"], "ftp:// is no store"),
    ],
)
def test_state_in_a_store_is_refused_where_it_would_not_outlive_the_machine(
    capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    assert says in refusal(capsys, "--state-dir=s3://bucket/state", *more)


@pytest.mark.parametrize("wish", ["cancel", "drain"])
def test_jobs_can_be_ended_at_sigterm_without_a_state_folder(wish: str) -> None:
    assert parse(["--on-sigterm", wish]).on_sigterm == wish


def test_underscores_are_dashes_in_names_only() -> None:
    settings = parse(["--job_port", "1", "--artifacts_dir=/a_b", "--spark_conf=spark.a_b=c_d"])
    assert settings.job_port == 1
    assert settings.artifacts_dir == Path("/a_b")
    assert settings.spark.conf == {"spark.a_b": "c_d"}


def test_the_last_value_of_a_property_counts() -> None:
    settings = parse(["--spark-conf", "spark.a=1", "--spark-conf", "spark.a=2"])
    assert settings.spark.conf == {"spark.a": "2"}


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("--job-prot", "--job-port"),
        ("--port", "--job-port"),
        ("--spark_master", "--spark-master-url"),
        ("--artifact-dir=x", "--artifacts-dir"),
    ],
)
def test_an_unknown_flag_names_the_nearest(
    capsys: pytest.CaptureFixture[str], unknown: str, nearest: str
) -> None:
    assert f"did you mean {nearest}?" in refusal(capsys, unknown)


@pytest.mark.parametrize("argument", ["--web-port=0", "-web_port=8074", "--web_port"])
def test_a_flag_of_what_is_not_installed_says_what_to_install(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--web-port needs beam-runner-web: " in refusal(capsys, argument)


def test_an_unknown_flag_like_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(capsys, "--zzz")
    assert "unknown flag --zzz;" in error
    assert "did you mean" not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--job-port", "x"], "--job-port: expected a port from 0 to 65535, got 'x'"),
        (["--job-port", "65536"], "expected a port from 0 to 65535"),
        (["--job-port=-1"], "expected a port from 0 to 65535"),
        (["--job-port"], "--job-port: expected one argument"),
        (["--spark-conf", "spark.a"], "expected KEY=VALUE"),
        (["--spark-conf", "a=b"], "a key that begins with 'spark.'"),
        (["--spark-master-url", "here"], "'here' is not a Spark master URL; expected local"),
        (["--log-kind", "xml"], "choose from"),
        (["--log-level", "loud"], "choose from"),
        (["--max-task-attempts", "0"], "expected a number from 1 on"),
        (["--max-stream-attempts", "many"], "expected a number from 1 on, or unlimited"),
        (["--outage-limit", "10"], "expected a duration as in 90s or 1h30m"),
        (["--state-dir=/s", "--keep-failed-streams=-1"], "expected a duration from 0 on"),
        (["--keep-failed-streams=7d"], "--keep-failed-streams needs a --state-dir"),
        (["--on-sigterm", "wait"], "choose from"),
        (["--on-sigterm=suspend"], "needs a --state-dir"),
        (["--sync-data"], "--sync-data needs a --state-dir"),
        (["8099"], "unexpected argument '8099'"),
    ],
)
def test_wrong_values_say_what_is_expected(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, *arguments)


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    names = ("job-port", "job-host", "state-dir", "artifacts-dir", "spark-master-url", "spark-conf")
    for name in names:
        assert f"--{name}" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("beam-spark-jobserver ")


@pytest.mark.parametrize("flags", [[], ["--token-file=/t"], ["--tls-client-ca=/c"]])
def test_extensions_are_served_beside_a_guarded_server_too(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr("beam_runner_server.flags.find", lambda: (Mock(),))
    assert len(parse(flags).extensions) == 1


@pytest.mark.parametrize(
    "line",
    [
        ["--job_port", "4711", "--log_level", "warn", "--log_kind", "json", "--serve_http=false"],
        ["-job_port=4711", "-log_level=WARN", "-log_kind=console", "-serve_http=false"],
    ],
    ids=["Python", "Java and Go"],
)
def test_as_sdks_start_prism(line: list[str]) -> None:
    settings = parse(line)
    assert (settings.job_port, settings.log_level, settings.log_kind) == (4711, "warning", "json")
    assert settings.extensions == ()


def test_prisms_other_ways() -> None:
    assert parse(["-log_kind", "dev"]).log_kind == "text"
    assert parse(["-serve_http", "-job_port", "1"]).job_port == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-1", None), ("-1ns", None), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25)],
)
def test_durations_as_go_writes_them(text: str, seconds: float | None) -> None:
    assert parse([f"-idle_shutdown_timeout={text}"]).idle_shutdown_timeout == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1x", "5mm"])
def test_what_is_no_duration(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(capsys, f"--idle-shutdown-timeout={text}")
    assert "expected a duration as in 90s or 1h30m" in error


@pytest.mark.parametrize("argument", ["-job_prot=1", "-x", "-"])
def test_a_single_dash_before_what_is_no_flag(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert argument.partition("=")[0] in refusal(capsys, argument)


def test_the_file_for_spark_is_all_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--spark-submit-script"])
    assert ended.value.code == 0
    printed = Path(capsys.readouterr().out.rstrip("\n"))
    assert "beam_spark_executor.cli import main" in printed.read_text()


def test_failed_streams_are_kept_for_a_week_where_state_is_kept_at_all() -> None:
    assert parse([]).keep_failed_streams == 0
    assert parse(["--state-dir=/s"]).keep_failed_streams == 7 * 24 * 3600
    assert parse(["--state-dir=/s", "--keep-failed-streams=0"]).keep_failed_streams == 0


def test_limits_of_attempts_and_outages_may_be_lifted() -> None:
    settings = parse(["--max-stream-attempts=unlimited", "--outage-limit=-1"])
    assert (settings.max_stream_attempts, settings.outage_limit) == (None, None)
    assert parse([]).outage_limit == 600
