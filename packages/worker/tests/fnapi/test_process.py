"""Tests of SDK harnesses as processes: a harness starts, runs bundles, and never outlives its
runner.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from beam_runner_model.bundles import BundleProgress
from beam_runner_model.stages import Artifact, Environment
from life import LifecycleRecorder, read_torn_down_processes
from processes import is_alive
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.errors import BundleError, HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi import start_watch
from beam_runner_worker.fnapi.harness import HarnessLimits
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)


def process(command: Path | str, **env: str) -> Environment:
    payload = beam_runner_api_pb2.ProcessPayload(command=str(command), env=env)
    return Environment("beam:env:process:v1", payload.SerializeToString())


def script(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(0o755)
    return path


def server_for(
    host: TinyHost,
    environment: Environment,
    *,
    logs: Logs | None = None,
    limits: HarnessLimits | None = None,
) -> FnApiServer:
    job = create_job(environment, environments=host.environment_ids)
    return FnApiServer(job, Artifacts(), logs or Logs(), limits=limits)


def test_harness_process_runs_pipeline_and_tears_down(boot: Path, tmp_path: Path):
    life = tmp_path / "life"
    p = new_pipeline()
    p | beam.Create([1, 2, 3]) | beam.ParDo(LifecycleRecorder(str(life)))
    host = TinyHost(p)
    server = server_for(host, process(boot))
    try:
        host.run(server.get_harness)
    finally:
        server.close()
    (pid,) = read_torn_down_processes(life)
    assert pid != os.getpid()
    assert not is_alive(pid)


def test_options_and_staged_files_reach_harness(boot: Path, tmp_path: Path):
    out = tmp_path / "out"

    def look(_, path=str(out)):
        from apache_beam.io.filesystems import FileSystems  # noqa: F401
        from apache_beam.options.value_provider import RuntimeValueProvider

        directory = os.environ["SEMI_PERSISTENT_DIRECTORY"]
        staged = Path(directory, "staged", "data.txt").read_bytes()
        runtime = RuntimeValueProvider.runtime_options
        Path(path).write_text(f"{len(staged)} {staged[:5]!r} {runtime['my_option']}")

    p = new_pipeline()
    p | beam.Create([1]) | beam.Map(look)
    host = TinyHost(p)
    content = b"hello" * 500_000
    staged = Artifact(
        role_urn="beam:artifact:role:staging_to:v1",
        role_payload=beam_runner_api_pb2.ArtifactStagingToRolePayload(
            staged_name="data.txt"
        ).SerializeToString(),
        type_urn="beam:artifact:type:file:v1",
        type_payload=b"whatever",
        staged_name="data.txt",
        sha256="abc",
    )
    environment = process(boot)
    environment = Environment(environment.urn, environment.payload, (staged,))
    job = create_job(environment, '{"beam:option:my_option:v1": "seen"}', host.environment_ids)
    server = FnApiServer(job, Artifacts({"abc": content}), Logs())
    try:
        host.run(server.get_harness)
    finally:
        server.close()
    assert out.read_text() == f"{len(content)} b'hello' seen"


def test_harness_process_log_and_output_reach_log_sink(boot: Path):
    def speak(_):
        import logging
        import os

        print("said on stdout")
        os.write(1, b"said by C\n")
        os.write(2, b"said on stderr\n")
        logging.getLogger("mine").warning("said in the log")

    p = new_pipeline()
    p | beam.Create([1]) | "Speak" >> beam.Map(speak)
    host = TinyHost(p)
    logs = Logs()
    server = server_for(host, process(boot), logs=logs)
    try:
        host.run(server.get_harness)
    finally:
        server.close()
    steps = {each.message: each.transform_id for each in logs.records}
    assert steps["print: said on stdout"] == "Speak"
    assert steps["print: said by C"] == ""
    assert "said on stderr" in steps
    (record,) = [each for each in logs.records if each.message == "said in the log"]
    assert record.severity.name == "WARN"
    assert record.transform_id == "Speak"
    assert abs(record.time_ms / 1000 - time.time()) < 100


def test_harness_process_exit_before_connection_is_reported_with_its_output(tmp_path: Path):
    host = TinyHost(one_element())
    command = script(tmp_path / "boot", "echo no python here >&2; exit 3\n")
    server = server_for(host, process(command))
    try:
        with pytest.raises(HarnessError, match=r"(?s)exited with code 3.*no python here"):
            host.run(server.get_harness)
    finally:
        server.close()


def test_starting_harness_process_without_cpu_use_is_abandoned_by_name(tmp_path: Path):
    pid = tmp_path / "pid"
    host = TinyHost(one_element())
    command = script(tmp_path / "boot", f"echo $$ >{pid}; echo waiting; exec sleep 600\n")
    server = server_for(host, process(command), limits=HarnessLimits(connect=1.0))
    told = rf"(?s)its process '{command}' has not connected.* neither ran nor waited .*limit: 1 s.*waiting"
    try:
        with pytest.raises(HarnessError, match=told):
            host.run(server.get_harness)
        assert not is_alive(int(pid.read_text()))
    finally:
        server.close()


def test_starting_harness_process_with_cpu_use_is_awaited_beyond_limit(
    boot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """For example, the process still imports Beam on an overloaded machine."""
    monkeypatch.setattr(start_watch, "_TELL_SECONDS", 1.0)
    starts = tmp_path / "starts"
    burn = "import time\nwhile time.process_time() < 3: pass"
    command = script(
        tmp_path / "slow",
        f"echo >>{starts}; {sys.executable} -c '{burn}'; exec {boot} \"$@\"\n",
    )
    host = TinyHost(one_element())
    logs = Logs()
    server = server_for(host, process(command), logs=logs, limits=HarnessLimits(connect=2.0))
    try:
        host.run(server.get_harness)
    finally:
        server.close()
    assert starts.read_text() == "\n", "it was started once"
    assert re.search(r"has been starting for \d+ s, and for \d+ s its", logs.messages)
    assert str(command) in logs.messages
    assert "did not connect" not in logs.messages


def test_harness_process_that_never_connects_is_not_retried(tmp_path: Path):
    pid = tmp_path / "pid"
    host = TinyHost(one_element())
    command = script(tmp_path / "boot", f"echo $$ >{pid}; while :; do :; done\n")
    server = server_for(host, process(command), limits=HarnessLimits(connect=0.5, start=2.0))
    try:
        with pytest.raises(BundleError, match=rf"within 2 seconds.*its process '{command}' was"):
            host.run(server.get_harness)
        assert not is_alive(int(pid.read_text()))
    finally:
        server.close()


def test_stage_reports_starting_harness(boot: Path, tmp_path: Path):
    go = tmp_path / "go"
    command = script(
        tmp_path / "slow", f'while [ ! -e {go} ]; do sleep 0.1; done; exec {boot} "$@"\n'
    )
    host = TinyHost(one_element())
    server = server_for(host, process(command))
    spec = host.specs[0]
    stage = server.get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    running = threading.Thread(
        target=host.run_stage, args=(spec, server.get_harness(spec.environment_id))
    )
    try:
        running.start()
        assert stage.get_progress() == BundleProgress((), 0.0, starts=True)
        go.touch()
        running.join(60)
        assert stage.get_progress() is None
    finally:
        go.touch()
        running.join(60)
        server.close()


def one_element() -> beam.Pipeline:
    p = new_pipeline()
    p | beam.Create([1]) | beam.Map(print)
    return p


def test_missing_command_of_harness_process_is_reported(tmp_path: Path):
    host = TinyHost(one_element())
    server = server_for(host, process(tmp_path / "nothing"))
    try:
        with pytest.raises(HarnessError, match="isn't an executable file"):
            host.run(server.get_harness)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (Environment("beam:env:docker:v1", b""), "docker container"),
        (Environment("beam:env:moon:v1", b""), "beam:env:moon:v1"),
        (process(""), "without a command"),
        (
            Environment(
                "beam:env:process:v1",
                beam_runner_api_pb2.ProcessPayload(os="plan9", command="x").SerializeToString(),
            ),
            "plan9",
        ),
    ],
)
def test_unsupported_environments_are_reported_by_name(environment: Environment, words: str):
    host = TinyHost(one_element())
    server = server_for(host, environment)
    try:
        with pytest.raises(UnsupportedEnvironment, match=words):
            host.run(server.get_harness)
    finally:
        server.close()


def test_harness_exits_with_its_runner(tmp_path: Path):
    """After SIGKILL of the runner, the complete process group of the harness exits, and its files are removed."""
    pids, place = tmp_path / "pids", tmp_path / "place"
    command = script(
        tmp_path / "boot",
        f"echo $SEMI_PERSISTENT_DIRECTORY >{place}; sleep 600 & echo $$ $! >{pids}; wait\n",
    )
    runner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import os, time
                from beam_runner_worker.fnapi.process import ProcessWorker
                # As in a Spark worker: the next descriptors have two digits, which some shells can't name.
                held = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
                worker = ProcessWorker("env", [{str(command)!r}], {{}}, "w", print)
                worker.start("127.0.0.1:1")
                time.sleep(600)
            """),
        ],
    )
    try:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 60)
        harness = [int(pid) for pid in pids.read_text().split()]
        directory = Path(place.read_text().strip())
        assert all(map(is_alive, harness))
        assert directory.is_dir()
        runner.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, harness)))
        assert not directory.exists()
    finally:
        runner.kill()
        runner.wait()


def test_exit_code_of_process_that_dies_in_bundle_is_reported(boot: Path):
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    host = TinyHost(p)
    server = server_for(host, process(boot))
    try:
        with pytest.raises(HarnessError, match=r"closed its \w+ stream: .*was killed by SIGKILL"):
            host.run(server.get_harness)
    finally:
        server.close()


def test_harness_reports_stacks_of_its_threads(boot: Path, tmp_path: Path):
    go = tmp_path / "go"
    p = new_pipeline()
    p | beam.Create([1]) | beam.Map(_wait_for, str(go))
    host = TinyHost(p)
    environment = process(boot)
    server = server_for(host, environment)
    running = threading.Thread(target=host.run, args=(server.get_harness,))
    try:
        running.start()
        statuses = ()
        for _ in range(1_000):
            statuses = server.request_sdk_status(5.0)
            if any("_wait_for" in one.text for one in statuses):
                break
            time.sleep(0.1)
        (status,) = statuses
        assert status.environment in host.environment_ids
        assert "_wait_for" in status.text
        assert status.process not in (None, os.getpid())
    finally:
        go.touch()
        running.join(60)
        server.close()
    assert server.request_sdk_status(0.1) == ()


def _wait_for(element: int, path: str) -> int:
    while not os.path.exists(path):
        time.sleep(0.05)
    return element
