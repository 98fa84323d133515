"""Virtual machines on this host: processes with separate disks, addresses and process ids, which share
only a network.

A machine is a process in kernel namespaces. The kernel removes the machine with the process, so a
killed test leaves nothing. A machine gives up a silent peer after 13 s, instead of 15 minutes, the
default of Linux.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from cpu_account import CpuAccount
from waiting import wait_until

_TOOLS = ("ip", "unshare", "nsenter", "mount", "hostname", "setpriv")
_NETWORKS = "198.18"
"""Addresses that are set apart for tests of networks."""

_BOOT = """
set -e
read plugged
ip link set lo up
hostname "$NAME"
echo 5 > /proc/sys/net/ipv4/tcp_retries2
mount --make-rprivate /
mount -t tmpfs tmpfs /run
printf '127.0.0.1 localhost\\n%s %s\\n' "$ADDRESS" "$NAME" > /run/hosts
mount --bind /run/hosts /etc/hosts
mount --bind "$DISK" /mnt
mount -t tmpfs tmpfs "$PRIVATE"
mount --bind /mnt "$PRIVATE"
umount /mnt
mkdir -p "$PRIVATE/tmp"
eval "$INSTALLED"
eval "$SHARED"
eval "$HIDDEN"
mount -o remount,bind,ro /
exec setpriv --pdeathsig KILL "$@"
"""


def reason_not_to() -> str:
    """Returns why virtual machines can't be created on this host; empty if they can."""
    if not sys.platform.startswith("linux"):
        return "namespaces are Linux's"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return (
            f"{', '.join(missing)} not found: `apt-get install iproute2 util-linux` installs them"
        )
    apart = ("unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true")
    if reason := _refusal(*apart):
        return f"namespaces can't be made, which root may: {reason}"
    line = f"try{os.getpid()}"
    pair = ("ip", "link", "add", f"{line}a", "type", "veth", "peer", "name", f"{line}b")
    if reason := _refusal(*pair):
        return f"no line to a network of their own can be made: {reason}"
    _ip("link", "del", f"{line}a")
    return ""


@attrs.frozen
class Layout:
    """File layout of every machine.

    Attributes:
        private: folder that each machine replaces with its own disk; the rest of the file system is
            read-only.
        installed: folders of this host by the names below ``private`` at which machines see them.
        hidden: folders that are empty on machines.
        shared: folders of this host that all machines see at the same paths, and may write.
    """

    private: Path
    installed: Mapping[str, Path] = attrs.field(factory=dict)
    hidden: Collection[Path] = ()
    shared: Collection[Path] = ()

    def environment(self) -> dict[str, str]:
        """Returns the commands that set up the layout."""
        installed = (
            f'mkdir -p "{self.private / name}"; mount --bind "{folder}" "{self.private / name}"'
            for name, folder in self.installed.items()
        )
        return {
            "PRIVATE": str(self.private),
            "INSTALLED": "\n".join(installed),
            "SHARED": "\n".join(f'mount --bind "{it}" "{it}"' for it in self.shared),
            "HIDDEN": "\n".join(f'mount -t tmpfs tmpfs "{folder}"' for folder in self.hidden),
        }


class Machine:
    """Machine that runs one program and its child processes.

    Attributes:
        name: host name.
        address: address on the network.
        disk: folder of its disk on this host, which survives a kill of the machine.
        log: output of its program, since the first start.
    """

    def __init__(self, network: Network, name: str, address: str, disk: Path) -> None:
        self._network = network
        self.name = name
        self.address = address
        self.disk = disk
        self.log = disk.with_suffix(".log")
        self._account = CpuAccount(f"{disk.parent.parent.name}-{name}")
        disk.mkdir()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, layout: Layout, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the machine, as a new machine after a kill, and runs a program on it."""
        assert not self.is_up
        own = {
            "NAME": self.name,
            "ADDRESS": self.address,
            "DISK": str(self.disk),
            "PATH": os.environ["PATH"],
            "HOME": str(layout.private),
            "TMPDIR": str(layout.private / "tmp"),
            **layout.environment(),
            **environment,
        }
        apart = ("unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork")
        whole = (*apart, "--mount-proc", "--kill-child", "sh", "-c", _BOOT, "sh", *command)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._account.around(("setpriv", "--pdeathsig", "KILL", *whole)),
                env=own,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self._network.plug(self._process.pid, self.name, self.address)
        assert self._process.stdin is not None
        self._process.stdin.write(b"plugged\n")
        self._process.stdin.close()

    @property
    def is_up(self) -> bool:
        """Returns True if the program of the machine runs."""
        return self._process is not None and self._process.poll() is None

    def traffic(self) -> tuple[int, int]:
        """Returns the numbers of received and sent bytes since the start of the machine."""
        assert self._process is not None
        cards = Path(f"/proc/{self._process.pid}/net/dev").read_text().splitlines()
        (card,) = (line.split(":")[1].split() for line in cards if line.strip().startswith("eth0:"))
        return int(card[0]), int(card[8])

    @contextmanager
    def full(self, folder: Path) -> Iterator[None]:
        """Mounts a separate full disk on a folder of the machine for the block."""
        assert self._process is not None
        (program,) = _children(self._process.pid)
        inside = ("nsenter", "--target", str(program), "--mount", "--pid")
        _run(*inside, "mkdir", "-p", str(folder))
        _run(*inside, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
        _run(*inside, "sh", "-c", f'cat /dev/zero > "{folder}/full"', check=False)
        try:
            yield
        finally:
            _run(*inside, "umount", "--lazy", str(folder))

    def cpu_seconds(self) -> float:
        """Returns the CPU time of all processes since the first start, seconds."""
        return self._account.seconds()

    def kill(self) -> None:
        """Simulates a power loss: all processes are gone without a message to peers."""
        if self._process is None:
            return
        self._network.unplug(self.name)
        self._process.kill()
        self._process.wait()
        self._process = None
        wait_until(lambda: not self._has_processes(), 60, f"{self.name} ends")

    def ask_to_end(self, seconds: float) -> int:
        """Sends SIGTERM to the program, and waits up to the limit; returns the exit code."""
        assert self._process is not None
        (program,) = _children(self._process.pid)
        os.kill(program, signal.SIGTERM)
        return self._process.wait(seconds)

    def stop(self) -> None:
        """Stops the program, so that peers see its connections close."""
        if self._process is not None and self._process.poll() is None:
            for pid in _children(self._process.pid):
                os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._network.unplug(self.name)
        self._process = None
        self._account.close()

    def _has_processes(self) -> bool:
        marks = (f"NAME={self.name}".encode(), f"DISK={self.disk}".encode())
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                found = environ.read_bytes().split(b"\0")
            except OSError:
                continue
            if all(mark in found for mark in marks):
                return True
        return False


class Network:
    """Separate network that includes this host.

    Attributes:
        address: address of this host.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 1
        self._lock = threading.Lock()
        self._switch = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        )
        wait_until(lambda: _has_own_network(self._switch.pid), 60, "the switch is up")
        self._at_switch("ip", "link", "add", "switch", "type", "bridge")
        self._at_switch("ip", "link", "set", "switch", "up")
        number = self._free_number()
        self._prefix = f"{_NETWORKS}.{number}"
        self.address = f"{self._prefix}.1"
        here = self._card = f"beam{number}"
        _ip("link", "add", here, "type", "veth", "peer", "name", "tests", "netns", self._pid)
        self._at_switch("ip", "link", "set", "tests", "master", "switch", "up")
        _ip("addr", "add", f"{self.address}/24", "dev", here)
        _ip("link", "set", here, "up")

    def machine(self, name: str) -> Machine:
        """Returns a new machine that isn't started yet."""
        self._count += 1
        return Machine(self, name, f"{self._prefix}.{self._count}", self._folder / name)

    def plug(self, pid: int, name: str, address: str) -> None:
        """Connects the network namespace of a process."""
        wait_until(lambda: _has_own_network(pid), 60, f"{name} boots")
        inside = ("nsenter", "--target", str(pid), "--net", "ip")
        # Retain the MAC address: other machines cache it for a minute.
        card = ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])
        with self._lock:
            self._at_switch(
                *("ip", "link", "add", "name", name, "type", "veth"),
                *("peer", "name", "eth0", "address", card, "netns", f"/proc/{pid}/ns/net"),
            )
            self._at_switch("ip", "link", "set", "dev", name, "master", "switch", "up")
            _run(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
            _run(*inside, "link", "set", "eth0", "up")

    def unplug(self, name: str) -> None:
        """Pulls a machine's plug: nothing from it or to it arrives any more."""
        self._at_switch("ip", "link", "del", "dev", name, check=False)

    def traffic(self) -> int:
        """Returns the numbers of bytes that this host has received and sent on the network."""
        card = Path(f"/sys/class/net/{self._card}/statistics")
        return sum(int((card / f"{way}_bytes").read_text()) for way in ("rx", "tx"))

    def close(self) -> None:
        """Removes the network."""
        self._switch.kill()
        self._switch.wait()

    @property
    def _pid(self) -> str:
        return str(self._switch.pid)

    def _at_switch(self, *command: str, check: bool = True) -> None:
        _run("nsenter", "--target", self._pid, "--net", *command, check=check)

    @staticmethod
    def _free_number() -> int:
        """Returns the number of a network that this host isn't part of."""
        taken = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True)
        first = os.getpid() % 250
        return next(
            number
            for number in (*range(first, 255), *range(first))
            if f"{_NETWORKS}.{number}." not in taken.stdout
        )


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Creates a network for the block; the disks of its machines are in the folder."""
    made = Network(folder)
    try:
        yield made
    finally:
        made.close()


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str, check: bool = True) -> None:
    reason = _refusal(*command)
    if check and reason:
        raise AssertionError(f"{' '.join(command)}: {reason}")


def _refusal(*command: str) -> str:
    """Runs a command; returns its error output if it fails, and an empty text otherwise."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"it ended with {done.returncode}" if done.returncode else ""


def _has_own_network(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
