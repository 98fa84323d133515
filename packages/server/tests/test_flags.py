from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from beam_runner_runtime.job_options import BulkMode
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_server import flags
from beam_runner_server.flags import ServerSettings, parse_command_line
from beam_runner_server.plain import PlainProcesses, PlainProgram


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parse_command_line(arguments, PlainProgram())
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    return error


@pytest.fixture(autouse=True)
def no_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides all installed extensions."""
    monkeypatch.setattr(flags, "find_extensions", lambda: ())


def test_server_flags_have_defaults() -> None:
    settings = parse_command_line([], PlainProgram())
    assert settings == ServerSettings()
    assert (settings.job_host, settings.job_port) == ("localhost", 8099)
    assert settings.platform == PlainProcesses(os.cpu_count() or 1)


def test_all_server_flags_are_parsed() -> None:
    settings = parse_command_line(
        program=PlainProgram(),
        arguments=[
            *("--job-port", "0", "--job-host", "0.0.0.0", "--artifacts-dir", "/a/b"),
            *("--cores", "3", "--log-level", "ERROR"),
            *(
                "--state-dir",
                "/s",
                "--max-task-attempts",
                "3",
                "--on-sigterm",
                "suspend",
                "--sync-data",
            ),
            *("--log-kind", "json"),
            *("--allow-remote", "--token-file", "/t", "--tls-cert=/c", "--tls-key=/k"),
            *("--tls-client-ca=/ca", "--hide-elements", "--bulk=always"),
            *("--max-stream-attempts=7", "--outage-limit=90s", "--keep-failed-streams=1d12h"),
        ],
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
        bulk=BulkMode.ALWAYS,
        platform=PlainProcesses(3),
        log_level="error",
        log_kind="json",
        allow_remote=True,
        token_file=Path("/t"),
        tls_cert=Path("/c"),
        tls_key=Path("/k"),
        tls_client_ca=Path("/ca"),
    )


def test_state_in_store_flag_is_accepted_if_next_server_finds_data() -> None:
    settings = parse_command_line(
        ["--state-dir=s3://bucket/state", "--data-dir=s3://bucket/data"], PlainProgram()
    )
    assert settings.state_dir == StoreSpec("s3://bucket/state")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--state-dir=s3://bucket/state needs a --data-dir that the next server can reach"),
        (
            ["--data-dir=/d", "--artifacts-dir=/a"],
            "--artifacts-dir has no effect, because --state-dir",
        ),
        (["--state-dir=ftp://host/x"], "ftp:// isn't a supported data store"),
    ],
)
def test_state_in_store_flag_is_refused_if_data_would_be_lost_with_machine(
    capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    assert says in refusal(capsys, "--state-dir=s3://bucket/state", *more)


def test_users_file_flag_with_token_file_flag_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = refusal(capsys, "--users-file=/u", "--token-file=/t")
    assert "--users-file replaces --token-file" in text
    assert parse_command_line(["--users-file=/u"], PlainProgram()).users_file == Path("/u")


@pytest.mark.parametrize("wish", ["cancel", "drain"])
def test_jobs_are_cancelled_at_sigterm_without_state_folder(wish: str) -> None:
    assert parse_command_line(["--on-sigterm", wish], PlainProgram()).on_sigterm == wish


def test_flag_names_but_not_values_accept_underscores_for_dashes() -> None:
    settings = parse_command_line(["--job_port", "1", "--artifacts_dir=/a_b"], PlainProgram())
    assert settings.job_port == 1
    assert settings.artifacts_dir == Path("/a_b")


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("--job-prot", "--job-port"),
        ("--port", "--job-port"),
        ("--artifact-dir=x", "--artifacts-dir"),
    ],
)
def test_unknown_flag_suggests_nearest_flag(
    capsys: pytest.CaptureFixture[str], unknown: str, nearest: str
) -> None:
    assert f"did you mean {nearest}?" in refusal(capsys, unknown)


@pytest.mark.parametrize("argument", ["--web-port=0", "-web_port=8074", "--web_port"])
def test_flag_of_missing_package_names_package_to_install(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--web-port needs beam-runner-web: " in refusal(capsys, argument)


def test_unknown_flag_without_similar_name_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
        (["--cores=0"], "a number of cores of 1 or more, got '0'"),
        (["--log-kind", "xml"], "choose from"),
        (["--log-level", "loud"], "choose from"),
        (["--max-task-attempts", "0"], "expected a number of 1 or more"),
        (["--max-stream-attempts", "many"], "expected a number of 1 or more, or unlimited"),
        (["--outage-limit", "10"], "expected a duration such as 90s or 1h30m"),
        (["--state-dir=/s", "--keep-failed-streams=-1"], "expected a duration of 0 or more"),
        (["--keep-failed-streams=7d"], "--keep-failed-streams needs a --state-dir"),
        (["--on-sigterm", "wait"], "choose from"),
        (["--on-sigterm=suspend"], "needs a --state-dir"),
        (["--sync-data"], "--sync-data needs a --state-dir"),
        (["8099"], "unexpected argument '8099'"),
    ],
)
def test_wrong_flag_values_name_expected_values(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, *arguments)


def test_help_flag_prints_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_command_line(["--help"], PlainProgram())
    assert ended.value.code == 0
    text = capsys.readouterr().out
    names = ("job-port", "job-host", "state-dir", "artifacts-dir", "cores")
    for name in names:
        assert f"--{name}" in text


def test_version_flag_prints_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_command_line(["--version"], PlainProgram())
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("beam-runner-jobserver ")


@pytest.mark.parametrize(
    "flags", [[], ["--token-file=/t"], ["--users-file=/u"], ["--tls-client-ca=/c"]]
)
def test_extensions_can_call_server_that_requires_token(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr("beam_runner_server.flags.find_extensions", lambda: (Mock(),))
    assert len(parse_command_line(flags, PlainProgram()).extensions) == 1


@pytest.mark.parametrize(
    "line",
    [
        ["--job_port", "4711", "--log_level", "warn", "--log_kind", "json", "--serve_http=false"],
        ["-job_port=4711", "-log_level=WARN", "-log_kind=console", "-serve_http=false"],
    ],
    ids=["Python", "Java and Go"],
)
def test_prism_flags_of_sdks_are_accepted(line: list[str]) -> None:
    settings = parse_command_line(line, PlainProgram())
    assert (settings.job_port, settings.log_level, settings.log_kind) == (4711, "warning", "json")
    assert settings.extensions == ()


def test_prism_flags_with_other_spellings_are_accepted() -> None:
    assert parse_command_line(["-log_kind", "dev"], PlainProgram()).log_kind == "text"
    assert parse_command_line(["-serve_http", "-job_port", "1"], PlainProgram()).job_port == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-1", None), ("-1ns", None), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25)],
)
def test_flag_values_with_go_durations_are_parsed(text: str, seconds: float | None) -> None:
    assert (
        parse_command_line([f"-idle_shutdown_timeout={text}"], PlainProgram()).idle_shutdown_timeout
        == seconds
    )


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1x", "5mm"])
def test_flag_values_with_invalid_durations_are_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(capsys, f"--idle-shutdown-timeout={text}")
    assert "expected a duration such as 90s or 1h30m" in error


@pytest.mark.parametrize("argument", ["-job_prot=1", "-x", "-"])
def test_unknown_flag_with_single_dash_is_refused(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert argument.partition("=")[0] in refusal(capsys, argument)


def test_state_of_failed_streams_is_retained_for_a_week_if_state_is_persisted() -> None:
    assert parse_command_line([], PlainProgram()).keep_failed_streams == 0
    assert (
        parse_command_line(["--state-dir=/s"], PlainProgram()).keep_failed_streams == 7 * 24 * 3600
    )
    assert (
        parse_command_line(
            ["--state-dir=/s", "--keep-failed-streams=0"], PlainProgram()
        ).keep_failed_streams
        == 0
    )


def test_standby_flag_without_state_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--state-dir" in refusal(capsys, "--standby")
    assert parse_command_line(["--standby", "--state-dir=/s"], PlainProgram()).standby


def test_flags_for_limits_of_attempts_and_outages_accept_no_limit() -> None:
    settings = parse_command_line(
        ["--max-stream-attempts=unlimited", "--outage-limit=-1"], PlainProgram()
    )
    assert (settings.max_stream_attempts, settings.outage_limit) == (None, None)
    assert parse_command_line([], PlainProgram()).outage_limit == 600
