"""Services that a server depends on. Tests can make each unavailable in several ways, and restore it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from free_ports import find_free_ports
from job_server import wait_until
from lives import THREADS_OF_A_CHANNEL
from processes import FORKED, parent_process, thread_count

BUCKET = "bucket"
SECRETS = {
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}
DISK_BYTES = 96 << 20
_HERE = Path(__file__).parent
_START_SECONDS = 120.0
_PIECE = 1 << 16
_STALL = "stall"
_DAEMON = "beam_spark_executor.spark.python_daemon"


class Neighbour(Protocol):
    """Service that a server or a bundle depends on.

    Attributes:
        name: name in the table.
        kinds: kinds of outages.
        told_by: part of the name by which a job reports the outage; empty if a job doesn't report
            it.
        is_counted: whether attempts that meet the outage are counted, because the runner doesn't
            know the service.
        answers: whether the server responds during an outage.
    """

    name: str
    kinds: tuple[str, ...]
    told_by = ""
    is_counted = False
    answers = True

    @abstractmethod
    def leave(self, kind: str) -> None:
        """Starts an outage."""

    @abstractmethod
    def come_back(self) -> None:
        """Ends the outage."""

    def close(self) -> None:
        """Removes the service; by default, does nothing."""
        return


class OutageProxy:
    """Proxy in front of an HTTP server of this machine, which a test can make unavailable.

    Args:
        port: port of the server.

    Attributes:
        url: address of the proxy.
    """

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_HERE / "proxy.py"), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = f"http://127.0.0.1:{self._read_line()}"

    def set_mode(self, mode: str) -> None:
        """Sets the mode, see `proxy`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        assert self._read_line() == "ok"

    def close(self) -> None:
        """Ends the proxy."""
        self._process.kill()
        self._process.wait()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class _HttpNeighbour(Neighbour):
    """A program that speaks HTTP, behind a proxy.

    Args:
        process: the program.
        port: its port.

    Attributes:
        url: the proxy's.
        direct: the program's own, which is reached in an outage, too, unless it stalls.
    """

    kinds = (_STALL, "refuse", "errors", "slow", "lose")

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.direct = f"http://127.0.0.1:{port}"
        wait_until(self._answers, _START_SECONDS, f"{self.name} answers")
        self._proxy = OutageProxy(port)
        self.url = self._proxy.url

    def leave(self, kind: str) -> None:
        if kind == _STALL:
            self._process.send_signal(signal.SIGSTOP)
        else:
            self._proxy.set_mode(kind)

    def come_back(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._proxy.set_mode("pass")

    def close(self) -> None:
        self._proxy.close()
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.direct}/numbers/none", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True


class Store(_HttpNeighbour):
    """An object store that speaks S3's protocol."""

    name = "object store"
    told_by = "store at s3://"

    def __init__(self) -> None:
        port = find_free_ports(1)[0]
        program = _HERE.parent / "support" / "atomic_moto.py"
        command = [sys.executable, "-P", str(program), "-H", "127.0.0.1", "-p", str(port)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet, text=True)
        super().__init__(process, port)
        made = urllib.request.Request(f"{self.direct}/{BUCKET}", method="PUT")
        urllib.request.urlopen(made, timeout=30).close()
        self.environment = {**SECRETS, "AWS_ENDPOINT_URL": self.url}


class Service(_HttpNeighbour):
    """A system that user code reads from and writes to."""

    name = "service of user code"
    is_counted = True

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(_HERE / "service.py")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        super().__init__(process, int(process.stdout.readline()))


class UserCode(Neighbour):
    """Step that raises while a file exists."""

    name = "user code"
    kinds = ("raises",)
    is_counted = True

    def __init__(self, file: Path) -> None:
        self.file = file

    def leave(self, kind: str) -> None:
        self.file.touch()

    def come_back(self) -> None:
        self.file.unlink()


class Disk(Neighbour):
    """A small file system, which can be full, or stall all writes; needs root and ext4."""

    name = "disk"
    kinds = ("full", _STALL)
    told_by = "the disk of "

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        image = folder.with_suffix(".img")
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        # Without a journal and reserved blocks, the file system has room for nothing but data.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image))
        _run("mount", "-o", "loop", str(image), str(folder))
        image.unlink()
        self._balloon = folder / "balloon"
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def leave(self, kind: str) -> None:
        # A process that writes to a frozen file system can't be interrupted, the server included.
        self.answers = kind != _STALL
        if kind == _STALL:
            _run("fsfreeze", "-f", str(self.folder))
            return
        self._ended.clear()
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()

    def come_back(self) -> None:
        if not self.answers:
            _run("fsfreeze", "-u", str(self.folder))
            return
        self._ended.set()
        assert self._thread is not None
        self._thread.join()
        self._balloon.unlink()

    def close(self) -> None:
        _run("umount", "-l", str(self.folder))

    def _fill(self) -> None:
        """Refills the file system continuously."""
        with self._balloon.open("wb", buffering=0) as file:
            while not self._ended.wait(0.1):
                with contextlib.suppress(OSError):
                    while not self._ended.is_set():
                        file.write(bytes(_PIECE))


class Workers(Neighbour):
    """The server's own worker processes.

    Args:
        processes: returns the command lines of the server's processes by their ids.
    """

    name = "worker process"
    kinds = ("stall", "stall of all")
    is_counted = True

    def __init__(self, processes: Callable[[], dict[int, str]]) -> None:
        self._processes = processes
        self._stopped: list[int] = []

    def leave(self, kind: str) -> None:
        found = list(self._serving())
        self._stopped = found if kind == "stall of all" else found[:1]
        for pid in self._stopped:
            _signal(pid, signal.SIGSTOP)

    def come_back(self) -> None:
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)

    def _serving(self) -> Iterator[int]:
        """Yields the processes that serve a job."""
        commands = self._processes().items()
        found = {pid for pid, text in commands if _DAEMON in text or text == FORKED}
        for pid in sorted(found):
            if parent_process(pid) in found and thread_count(pid) >= THREADS_OF_A_CHANNEL:
                yield pid


class Server(Neighbour):
    """The server's own process.

    Args:
        process: the process.
    """

    name = "server process"
    kinds = ("stall",)
    is_counted = True  # a worker process without messages from its server exits
    answers = False

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def leave(self, kind: str) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def come_back(self) -> None:
        self._process.send_signal(signal.SIGCONT)


def can_mount(folder: Path) -> bool:
    """Returns True if this user may mount a file system."""
    try:
        made = Disk(folder / "probe")
    except (OSError, subprocess.CalledProcessError):
        return False
    made.close()
    return True


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the server has ended the process meanwhile
        os.kill(pid, number)
