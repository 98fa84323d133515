"""Tests that the server works in a process that was forked after the imports of Beam and gRPC."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

PROGRAM = """
    import os, sys
    sys.path[:0] = {tests!r}
    import apache_beam as beam
    from apache_beam.portability.api import beam_runner_api_pb2
    from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline
    from beam_runner_worker.fnapi.server import FnApiServer
    from beam_runner_model.stages import Environment

    def work(number):
        payload = beam_runner_api_pb2.ProcessPayload(command={boot!r}).SerializeToString()
        p = new_pipeline()
        p | beam.Create(range(10)) | beam.Map(lambda n: (n % 2, n)) | beam.GroupByKey()
        host = TinyHost(p)
        job = create_job(Environment("beam:env:process:v1", payload), environments=host.environment_ids)
        server = FnApiServer(job, Artifacts(), Logs())
        host.run(server.get_harness)
        server.close()

    children = []
    for number in range(2):
        pid = os.fork()
        if pid == 0:
            try:
                work(number)
                os._exit(0)
            except BaseException as error:
                print(type(error), error, file=sys.stderr)
                os._exit(1)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    sys.exit(codes != [0, 0])
"""


def test_forked_processes_run_pipelines(boot: Path, tmp_path: Path):
    program = tmp_path / "program.py"
    tests = [str(Path(__file__).parent), str(Path(__file__).parents[4] / "tests" / "support")]
    program.write_text(textwrap.dedent(PROGRAM.format(tests=tests, boot=str(boot))))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
