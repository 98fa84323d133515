"""Tests of the command ``beam-runner-web``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beam_runner_web.cli import main

from .conftest import Server


@contextmanager
def running(server: Server, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts the process, and returns it with the printed address."""
    command = [sys.executable, "-m", "beam_runner_web.cli", "--job-endpoint", server.address]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(
                rf"beam-runner-web shows the jobs of {server.address} at (\S+/)\n", line
            )
            assert found, line
            yield process, found[1]
        finally:
            process.kill()


def test_web_command_serves_until_terminated(server: Server) -> None:
    job = server.submit()
    with running(server, "--web-port=0") as (process, url):
        with urllib.request.urlopen(f"{url}api/v1/jobs", timeout=30) as answer:
            assert [one["id"] for one in json.load(answer)["jobs"]] == [job.id]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)


def test_web_command_exits_without_a_traceback_at_ctrl_c(server: Server) -> None:
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from beam_runner_web.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    flags = ("--job-endpoint", server.address, "--web-port=0")
    command = [sys.executable, "-c", program, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, b"Traceback" in errors) == (0, False), errors


def test_web_command_needs_token_for_other_machines(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everywhere = ("--web-host=0.0.0.0", "--web-port=0")
    assert main(["--job-endpoint", server.address, *everywhere]) == 1
    assert "set --web-token-file" in capsys.readouterr().err
    file = tmp_path / "token"
    file.write_text("s3cret\n", encoding="utf-8")
    with running(server, *everywhere, f"--web-token-file={file}") as (_, url):
        address = f"http://localhost:{url.rstrip('/').rpartition(':')[2]}/api/v1/jobs"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address, timeout=30)
        asked = urllib.request.Request(address, headers={"authorization": "Bearer s3cret"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "flag", ["--web-port=http", "--web-token-file=/none", "--job-token-file=/none"]
)
def test_web_command_reports_wrong_flag(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--job-endpoint=localhost:1", flag])
    assert ended.value.code == 2
    assert "usage: beam-runner-web" in capsys.readouterr().err


def test_web_command_reports_port_in_use(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    port = server.address.rpartition(":")[2]
    assert main([f"--job-endpoint={server.address}", f"--web-port={port}"]) == 1
    assert f"Can't listen at localhost:{port}" in capsys.readouterr().err
