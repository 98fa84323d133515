"""Tests that run the commands of deploy/standalone/README.md on two machines with separate disks and addresses."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from machines import Layout, Network, network, reason_not_to
from server_commands import DEPLOY
from spark_machines import QUICK_JAVA
from waiting import wait_until

PAGE = DEPLOY / "standalone" / "README.md"
_BLOCK = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEAD = """
set -e
cd "$HOME"
python3 -c 'import pathlib, sys; pathlib.Path("words.py").write_text(sys.argv[1])' "$PROGRAM"
eval "exec $MASTER" > master.txt 2>&1 &
eval "exec $SERVER" > server.txt 2>&1 &
until python3 -c 'import urllib.request; urllib.request.urlopen("http://localhost:8074/readyz")' 2> /dev/null
do sleep 3
done
touch ready
eval "$CLIENT" > client.txt 2>&1 || true
touch done
exec sleep infinity
"""
_SECONDS = 280.0


def read_blocks() -> dict[str, str]:
    """Returns the code of the page by its role."""
    return {role: text for _, role, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))}


@pytest.fixture
def layout() -> Iterator[Layout]:
    if reason := reason_not_to():
        pytest.skip(f"NOT RUN: {reason}")
    with tempfile.TemporaryDirectory(prefix="s") as name:
        yield Layout(Path(name))


@pytest.fixture
def machines(layout: Layout) -> Iterator[Network]:
    disks = layout.private / "disks"
    disks.mkdir()
    with network(disks) as made:
        yield made


def make_environment(layout: Layout) -> Mapping[str, str]:
    """Returns variables for programs that can write only to the disk of their machine."""
    return {
        "PYTHONPATH": ":".join(one for one in sys.path if one.endswith("/src")),
        "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} -Djava.io.tmpdir={layout.private}/tmp",
        "SPARK_LOCAL_DIRS": f"{layout.private}/tmp",
    }


@pytest.mark.timeout(900)
def test_standalone_page_commands_run_a_job_on_two_machines(
    layout: Layout, machines: Network
) -> None:
    blocks = read_blocks()
    head, worker = machines.machine("head"), machines.machine("worker")
    replaced = {
        "HEAD": head.address,
        "WORKER": worker.address,
        "/opt/beam/bin": f"{sys.prefix}/bin",
    }

    def fill(role: str) -> str:
        return re.sub("|".join(replaced), lambda found: replaced[found[0]], blocks[role])

    def show_logs() -> str:
        logs = [worker.log, *sorted(head.disk.glob("*.txt"))]
        logs += worker.disk.glob("spark-work/*/*/stderr")
        return "\n".join(f"{one}:\n{one.read_text()[-3000:]}" for one in logs if one.exists())

    environment = make_environment(layout)
    commands = {role.upper(): fill(role).strip() for role in ("master", "server", "client")}
    program = {"PROGRAM": blocks["words.py"]}
    try:
        head.start(layout, ("sh", "-c", _HEAD), {**environment, **commands, **program})
        worker.start(layout, ("sh", "-c", f"exec {fill('worker').strip()}"), environment)
        wait_until(lambda: (head.disk / "done").exists(), _SECONDS, show_logs)
        output = (head.disk / "client.txt").read_text()
        assert blocks["part"].strip() in output, show_logs()
        executors = list(worker.disk.glob("spark-work/app-*/*/stderr"))
        assert len(executors) == 1, show_logs()
    finally:
        for machine in (worker, head):
            machine.stop()


def test_standalone_page_lists_the_ports_of_its_commands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = read_blocks()
    given = {
        port
        for role in ("master", "worker", "server")
        for port in re.findall(r"port[= ](\d+)", blocks[role])
    }
    rows = set(re.findall(r"^\| (\d+)", text, re.MULTILINE))
    assert rows == given | {"4040", "6066"}
