"""Repetition of a document's terminal session: writes its files, runs its commands, compares its outputs.

The session runs in separate namespaces, so that a document's ports are free, its servers are
unreachable for other programs, and no process survives. Its folder contains links to the files of
the repository, as a checkout does. As a script, this module plays one page inside of the namespaces.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
from documents import ROOT, Block, Category, categorize_block, read_blocks, read_table

GIVEN = ROOT / "tests" / "documents" / "given"
_APART = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
)
_NAMESPACES = (*_APART, "--mount-proc")
_LINKED = ("README.md", "deploy", "examples", "packages")
_PORT = re.compile(r"--(?:job-|web-)?port[= ](\d+)")
_DEFAULT_PORTS = {"beam-runner-web": "8074", "beam_runner_jobservices.relay": "8099"}
_NETWORK = (
    "link set lo up",
    # Without an address on an interface that has a hardware address, Spark's network library logs a
    # warning.
    "link add net0 type veth peer name net1",
    "addr add 192.0.2.1/24 dev net0",
    "link set net0 up",
    "link set net1 up",
)
_COMMAND_SECONDS = 240.0
_SERVER_SECONDS = 120.0


def reason_without_namespaces() -> str:
    """Returns why sessions can't run on this machine; empty if they can."""
    done = subprocess.run([*_NAMESPACES, "ip", "link"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def play_page(page: str, folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Repeats the terminal session of a document in an empty folder; the output says what differs."""
    for name in _LINKED:
        (folder / name).symlink_to(ROOT / name)
    (folder / "tmp").mkdir()
    for file in GIVEN.iterdir():
        if file.suffix == ".py":
            (folder / file.name).write_text(file.read_text())
    command = [*_NAMESPACES, sys.executable, __file__, page]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **_environment(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def _environment(folder: Path) -> Mapping[str, str]:
    """Returns the variables of a shell in which this virtual environment is active."""
    return {
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": ":".join(one for one in sys.path if one.endswith("/src")),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class DifferentPageError(Exception):
    """A command or an output that isn't as the document says."""


@attrs.define
class Player:
    """Player of a session's blocks, in the current folder.

    Attributes:
        output: standard output of the last command.
        errors: standard error of the last command.
        servers: running servers, with the file of their standard error.
    """

    output: str = ""
    errors: str = ""
    servers: list[tuple[subprocess.Popen[bytes], Path]] = attrs.field(factory=list)

    def play(self, block: Block) -> None:
        """Repeats one block."""
        text = block.text.replace("/tmp/", f"{Path.cwd()}/tmp/")
        if block.language == "text":
            self._compare(block.role, text)
        elif block.is_file:
            Path(block.role).write_text(text)
            Path(block.role).chmod(0o755)
        elif block.role == "server":
            self._start(text)
        else:
            self._run(text, fails=block.role == "fails")

    def stop(self) -> None:
        """Stops the servers as Ctrl-C does."""
        for server, log in self.servers:
            server.send_signal(signal.SIGINT)
            if server.wait(_SERVER_SECONDS):
                raise DifferentPageError(f"a server failed:\n{log.read_text()}")

    def _run(self, text: str, fails: bool) -> None:
        done = subprocess.run(
            ["bash", "-ec", text],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        self.output, self.errors = done.stdout, done.stderr
        if bool(done.returncode) is not fails:
            raise DifferentPageError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")

    def _start(self, text: str) -> None:
        log, errors = (Path(f"server-{len(self.servers)}.{kind}") for kind in ("out", "err"))
        with log.open("wb") as out, errors.open("wb") as err:
            # The shell ignores SIGINT in background processes, so the server replaces the shell.
            server = subprocess.Popen(["bash", "-c", f"exec {text}"], stdout=out, stderr=err)
        self.servers.append((server, errors))
        named = [port for name, port in _DEFAULT_PORTS.items() if name in text]
        for port in _PORT.findall(text) or named:
            _wait_for_port(int(port), server, errors)
        # A server prints its address after it has opened its ports.
        _wait(lambda: log.stat().st_size > 0, server, errors)
        self.output, self.errors = log.read_text(), ""

    def _compare(self, role: str, text: str) -> None:
        if role == "output":
            same = self.output == text
        elif role == "end":
            same = self.errors.rstrip().endswith(text.rstrip())
        else:
            same = mask(self.output + self.errors) == mask(text)
        if not same:
            raise DifferentPageError(f"the output differs:\n{self.output}{self.errors}")


def mask(text: str) -> str:
    """Returns a text without numbers, random ids, and a line that Beam logs if an extra is missing."""
    without_line = re.sub(r"^WARNING:root:apitools not found.*\n", "", text, flags=re.MULTILINE)
    without_ids = re.sub(r"-[0-9a-f]{8}\b", "-ID", without_line)
    return re.sub(r"\d+", "0", without_ids).rstrip()


def _wait_for_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("localhost", port), 1):
            return True
        return False

    _wait(answers, server, log)


def _wait(ready: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SERVER_SECONDS
    while not ready():
        if server.poll() is not None or time.monotonic() > deadline:
            raise DifferentPageError(f"a server isn't ready\n{log.read_text()}")
        time.sleep(0.2)


def _run_given(page: str) -> None:
    """Runs the commands that a page assumes, such as the start of a server that another page shows."""
    script = GIVEN / f"{page.removesuffix('.md').replace('/', '-')}.sh"
    if script.exists():
        subprocess.run(["bash", "-e", script], check=True, timeout=_COMMAND_SECONDS)


def main(page: str) -> int:
    """Plays a page and prints the first difference."""
    for command in _NETWORK:
        subprocess.run(["ip", *command.split()], check=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    table = read_table()
    player = Player()
    _run_given(page)
    try:
        for block in read_blocks(page):
            if categorize_block(block, table) is Category.SESSION:
                print(f"{block.page}:{block.line}: {block.text.splitlines()[0]}", flush=True)
                player.play(block)
        player.stop()
    except (DifferentPageError, subprocess.TimeoutExpired) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
