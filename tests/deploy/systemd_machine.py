"""Virtual machine whose first process is systemd, which runs the unit of ``deploy/systemd``.

The machine has its own processes, mounts and control groups, and this host's files and network. Its
systemd knows only the unit and the targets that every unit needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from waiting import wait_until

SYSTEMD = "/lib/systemd/systemd"
_TOOLS = ("unshare", "nsenter", "mount", "systemctl")
_CGROUPS = Path("/sys/fs/cgroup")
_TARGETS = "sysinit basic network-online multi-user shutdown umount final exit"
_BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/python
mount --bind "$PYTHON" /run/python
if [ -n "$HIDDEN" ]; then
    mount -t tmpfs -o mode=755 tmpfs "$HIDDEN"
    mkdir -p "$PYTHON"
    mount --bind /run/python "$PYTHON"
fi
cp /etc/passwd /etc/group /run
echo beam:x:10001:10001::/var/lib/beam-spark:/bin/sh >> /run/passwd
echo beam:x:10001: >> /run/group
mount --bind /run/passwd /etc/passwd
mount --bind /run/group /etc/group
mount --bind "$DISK" /var/lib
mount -t tmpfs tmpfs /etc/systemd/system
mount -t tmpfs tmpfs /lib/systemd/system
for name in $TARGETS; do
    printf '[Unit]\\nDescription=%s\\nDefaultDependencies=no\\n' $name > /lib/systemd/system/$name.target
done
cp "$UNIT" /lib/systemd/system
umount -R /sys/fs/cgroup
if [ -n "$UNIFIED" ]; then
    mount -t cgroup2 cgroup /sys/fs/cgroup
else
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
fi
exec env -i container=test PATH="$PATH" "$SYSTEMD" --system --unit=multi-user.target --show-status=0
"""


def reason_not_to() -> str:
    """Returns why the virtual machine can't be created on this host; empty if it can."""
    if os.geteuid() != 0:
        return "only root can create the machine"
    environment = Path(sys.prefix)
    if hidden := [one for one in (environment, *environment.parents) if not is_open(one)]:
        return f"the user of the unit can't enter {hidden[-1]}, in which the packages are"
    missing = [tool for tool in (*_TOOLS, SYSTEMD) if shutil.which(tool) is None]
    return f"{', '.join(missing)} not found" if missing else ""


def is_open(folder: Path) -> bool:
    """Returns whether all users can enter a folder."""
    return bool(folder.stat().st_mode & 0o001)


class SystemdMachine:
    """Running machine.

    Args:
        unit: the unit, for this host's programs.
        folder: folder for the machine's ``/var/lib`` and its log.
    """

    def __init__(self, unit: Path, folder: Path) -> None:
        unified = (_CGROUPS / "cgroup.controllers").exists()
        self._group = (_CGROUPS if unified else _CGROUPS / "systemd") / f"beam-test-{os.getpid()}"
        self._group.mkdir()
        disk = folder / "disk"
        disk.mkdir()
        self._log = folder / "systemd.txt"
        variables = {
            **_describe_python(),
            "DISK": str(disk),
            "UNIT": str(unit),
            "TARGETS": _TARGETS,
            "SYSTEMD": SYSTEMD,
            "UNIFIED": "yes" if unified else "",
        }
        enter = f'echo $$ > {self._group}/cgroup.procs; exec unshare --mount --pid --fork --cgroup --uts --ipc --kill-child sh -c "$BOOT"'
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", enter],
                env={**os.environ, **variables, "BOOT": _BOOT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(
            lambda: self.call("is-active", "multi-user.target", check=False) == "active",
            60,
            self._log.read_text,
        )

    def call(self, *arguments: str, check: bool = True) -> str:
        """Returns the output of ``systemctl`` on the machine."""
        first = _find_child(self._process.pid)
        command = ("nsenter", "-t", str(first), "-m", "-p", "systemctl", "--no-pager", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0 or not check, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def show(self, unit: str, name: str) -> str:
        """Returns a property of a systemd unit."""
        return self.call("show", "--value", f"--property={name}", unit)

    def kill_main_process(self, unit: str) -> None:
        """Kills the main process of a systemd unit."""
        self.call("kill", "--kill-whom=main", "--signal=KILL", unit)

    def close(self) -> None:
        """Stops the machine with all its processes."""
        self._process.kill()
        self._process.wait()
        for group in sorted(self._group.rglob("*"), reverse=True):
            if group.is_dir():
                wait_until(lambda group=group: _remove_group(group), 30, str(group))
        wait_until(lambda: _remove_group(self._group), 30, str(self._group))


def _describe_python() -> Mapping[str, str]:
    """Returns the folder of this Python, and its first parent if other users can't enter it."""
    python = Path(sys.base_prefix)
    top = Path(*python.parts[:2])
    hidden = str(top) if not is_open(top) else ""
    return {"PYTHON": str(python), "HIDDEN": hidden}


def _find_child(pid: int) -> int:
    """Returns the first process of the machine, as the host numbers it; 0 before the machine starts."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = children.read_text().split() if children.exists() else []
    return int(found[0]) if found else 0


def _remove_group(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return not group.exists()
    return True
