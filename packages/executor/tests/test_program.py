from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from beam_runner_server import flags
from beam_runner_server.flags import ServerSettings
from beam_runner_server.plain import PlainProcesses

from beam_spark_executor.program import SparkProgram
from beam_spark_executor.spark.platform import SparkPlatform
from beam_spark_executor.spark.settings import SparkSettings


@pytest.fixture(autouse=True)
def no_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides all installed extensions."""
    monkeypatch.setattr(flags, "find_extensions", lambda: ())


def parse(arguments: Sequence[str]) -> ServerSettings:
    return flags.parse_command_line(arguments, SparkProgram())


def spark_of(*arguments: str) -> SparkSettings:
    platform = parse(arguments).platform
    assert isinstance(platform, SparkPlatform)
    return platform.settings


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_server_program_uses_spark_by_default() -> None:
    assert spark_of() == SparkSettings(master=None, conf={}, log_level="warn")


def test_server_program_uses_local_processes_by_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--without-spark=3"]) == ServerSettings(platform=PlainProcesses(3))
    assert parse(["--without-spark"]).platform == PlainProcesses(os.cpu_count() or 1)
    said = "{} has no effect with --without-spark, which runs jobs in processes of this machine"
    for flag in ("--spark-master-url=local", "--spark-conf=spark.a=1"):
        error = refusal(capsys, "--without-spark", flag)
        assert said.format(flag.partition("=")[0]) in error
    assert "a number of cores of 1 or more, got '0'" in refusal(capsys, "--without-spark=0")


def test_spark_flags_are_parsed() -> None:
    found = spark_of(
        *("--spark-master-url", "spark://host:7077", "--log-level", "ERROR"),
        *("--spark_conf", "spark.a=1", "--spark-conf=spark.b_c=x=y", "--spark-conf=spark.a=2"),
    )
    assert found == SparkSettings(
        "spark://host:7077", {"spark.a": "2", "spark.b_c": "x=y"}, "error"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--spark_master"], "did you mean --spark-master-url?"),
        (["--spark-conf", "spark.a"], "expected KEY=VALUE"),
        (["--spark-conf", "a=b"], "a key that starts with 'spark.'"),
        (["--spark-master-url", "here"], "'here' is not a Spark master URL; expected local"),
    ],
)
def test_spark_flag_error_names_expected_values(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, *arguments)


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_flags_help_and_version_print_text_and_exit(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([flag])
    assert ended.value.code == 0
    assert "beam" in capsys.readouterr().out


def test_spark_submit_script_flag_prints_only_path(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--spark-submit-script"])
    assert ended.value.code == 0
    printed = Path(capsys.readouterr().out.rstrip("\n"))
    assert "beam_spark_executor.cli import main" in printed.read_text()
