"""Tests of a forked process, which a server forks before it has threads: it follows orders, inherits no
resource, and exits with the server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until_gone

from beam_runner_runtime.processes import reaper
from beam_runner_runtime.processes.forked_process import NAME

pytestmark = pytest.mark.skipif(not reaper.is_reaper_supported(), reason="Linux alone can do that")

# A server that forwards its input to its forked process, and prints the responses.
SERVER = """
import json, logging, os, signal, subprocess, sys
from beam_runner_runtime.processes import reaper
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.processes.forked_process import ForkedProcess

LIMITS.orphan_seconds = 1.0
OF_THE_SERVER = 1
logging.basicConfig(level=logging.DEBUG)
signal.signal(signal.SIGTERM, lambda number, frame: print("the server", flush=True))

def serve():
    for line in sys.stdin:
        child = subprocess.Popen(["sleep", line.strip()])
        told = {"pid": os.getpid(), "child": child.pid, "session": os.getsid(0)}
        told["main"] = hasattr(sys.modules["__main__"], "OF_THE_SERVER")
        told["handlers"] = len(logging.getLogger().handlers)
        told["handled"] = callable(signal.getsignal(signal.SIGTERM))
        print(json.dumps(told), flush=True)

forked = ForkedProcess(serve)
for line in sys.stdin:
    if line == "terminate\\n":
        forked.terminate()
        print(forked.wait(60), flush=True)
    else:
        forked.stdin.write(line)
        forked.stdin.flush()
        print(forked.stdout.readline(), end="", flush=True)
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], text=True, env=environment, **streams
    ) as process:
        yield process
        process.kill()


def ask(server: subprocess.Popen[str], line: str) -> Any:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{line}\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@pytest.mark.timeout(120)
def test_forked_process_inherits_no_resource_of_server(server: subprocess.Popen[str]) -> None:
    told = ask(server, "600")
    assert not told["main"]
    assert not told["handlers"]
    assert not told["handled"]
    assert told["session"] != os.getsid(server.pid)
    assert Path(f"/proc/{told['pid']}/comm").read_text().strip() == NAME


@pytest.mark.timeout(120)
def test_forked_process_exits_with_its_descendants_on_request(
    server: subprocess.Popen[str],
) -> None:
    told = ask(server, "600")
    assert ask(server, "terminate") == 0
    wait_until_gone(told["pid"], told["child"])


@pytest.mark.timeout(120)
def test_forked_process_exits_with_its_descendants_after_kill_of_server(
    server: subprocess.Popen[str],
) -> None:
    told = ask(server, "600")
    server.send_signal(signal.SIGKILL)
    wait_until_gone(told["pid"], told["child"])


LETS_GO = """
import os
from beam_runner_runtime.processes.forked_process import ForkedProcess

def serve():
    print("is there", flush=True)
    input()

reads, writes = os.pipe()
forked = ForkedProcess(serve, [writes])
assert forked.stdout.readline() == "is there\\n"
os.close(writes)
assert os.read(reads, 1) == b"", "whoever reads there sees the end"
forked.terminate()
"""


def test_forked_process_closes_inherited_descriptors() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", LETS_GO], env=environment, check=True, timeout=60)
