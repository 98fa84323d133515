"""Tests that the systemd unit is valid, and that its environment file contains its variables."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from free_ports import find_free_ports
from jobs import Pipelines, pickle_by_value
from server_commands import DEPLOY
from systemd_machine import SystemdMachine, reason_not_to
from waiting import wait_until

UNIT = DEPLOY / "systemd" / "beam-spark.service"
ANALYZE = shutil.which("systemd-analyze") or ""


def verify(unit: Path) -> str:
    """Returns the complaints of systemd about a unit file."""
    command = (ANALYZE, "verify", "--man=no", str(unit))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    mentioned = [line for line in done.stderr.splitlines() if unit.name in line or "error" in line]
    return "\n".join(mentioned) or ("" if done.returncode == 0 else done.stderr)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Returns the unit with this environment's server, because systemd looks for the program."""
    if not ANALYZE:
        pytest.skip("NOT RUN: there is no systemd-analyze on the path")
    text = UNIT.read_text(encoding="utf-8").replace("/opt/beam/bin", f"{sys.prefix}/bin")
    copy = tmp_path / UNIT.name
    copy.write_text(text, encoding="utf-8")
    return copy


def test_systemd_accepts_the_unit(unit: Path) -> None:
    assert verify(unit) == ""


def test_systemd_complains_about_a_misspelt_setting(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMod=mixed"))
    assert "KillMod" in verify(unit)


def test_each_variable_of_the_unit_is_in_its_environment_file() -> None:
    used = set(re.findall(r"\$\{?([A-Z_]+)", UNIT.read_text(encoding="utf-8")))
    defined = re.findall(r"^([A-Z_]+)=", UNIT.with_suffix(".env").read_text(), re.MULTILINE)
    assert used == set(defined)


@pytest.fixture
def address(unit: Path) -> str:
    """Returns the server's address. The unit uses the free port of this address, not the unit's
    default port.
    """
    port = find_free_ports(1)[0]
    variables = UNIT.with_suffix(".env").read_text(encoding="utf-8")
    for old, new in (("JOB_PORT=8099", f"JOB_PORT={port}"), ("--web-port=8074", "")):
        assert old in variables
        variables = variables.replace(old, new)
    file = unit.with_suffix(".env")
    file.write_text(variables, encoding="utf-8")
    text = unit.read_text(encoding="utf-8").replace(f"/etc/beam-spark/{file.name}", str(file))
    unit.write_text(text, encoding="utf-8")
    return f"localhost:{port}"


@pytest.fixture
def machine(unit: Path, address: str) -> Iterator[SystemdMachine]:
    if reason := reason_not_to():
        pytest.skip(f"NOT RUN: {reason}")
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        running = SystemdMachine(unit, Path(folder))
        try:
            yield running
        finally:
            running.close()


def answers(address: str) -> bool:
    """Returns whether a server lists its jobs."""
    with JobClient(address) as client:
        try:
            client.list_jobs()
        except JobApiError:
            return False
        return True


def start_slow_job(address: str) -> str:
    """Starts a job of about 10 s, and returns its ID."""

    def wait_slowly(number: int) -> tuple[int, int]:
        time.sleep(0.1)
        return number % 7, number

    pickle_by_value(__name__)
    pipelines = Pipelines(address, "embedded", ())
    pipeline = pipelines.new()
    _ = (
        pipeline
        | beam.Create(range(200))
        | beam.Reshuffle()
        | beam.Map(wait_slowly)
        | beam.CombinePerKey(sum)
        | beam.Values()
        | beam.CombineGlobally(sum)
        | beam.Map(lambda total: [][0] if total != sum(range(200)) else None)
    )
    return pipelines.job(pipeline).job_id


@pytest.mark.timeout(300)
def test_systemd_restarts_a_killed_server_that_continues_its_job(
    machine: SystemdMachine, unit: Path, address: str
) -> None:
    machine.call("start", unit.name)
    wait_until(lambda: answers(address), 60, lambda: machine.call("status", unit.name, check=False))
    job_id = start_slow_job(address)
    time.sleep(2)
    machine.kill_main_process(unit.name)
    wait_until(lambda: machine.show(unit.name, "NRestarts") == "1")
    wait_until(lambda: answers(address))
    with JobClient(address) as client:
        assert client.wait_until_finish(job_id, 120) is JobState.DONE
    machine.call("stop", unit.name)
    assert machine.show(unit.name, "Result") == "success"
    assert machine.show(unit.name, "User") == "beam"
