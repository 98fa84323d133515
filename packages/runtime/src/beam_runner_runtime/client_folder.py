"""Working directory of the program that submits a job (the client). Relative paths in the job refer
to this directory.

The client sends a description of the directory in an option of the job. A process identifies the
same directory by the machine's boot ID and by the device and inode numbers, because other machines
and containers can have a directory of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from beam_runner_urns import options as option_urns
from beam_runner_worker.errors import HarnessError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@attrs.frozen
class ClientFolder:
    """Working directory of a client (the program that submits a job).

    Attributes:
        path: the absolute path on the client's machine.
        machine: boot ID of the client's machine.
        inode: device and inode number of the directory, as text.
    """

    path: str
    machine: str
    inode: str

    @classmethod
    def from_current_process(cls) -> ClientFolder | None:
        """Returns the working directory of this process; None if the operating system doesn't
        expose the directory.
        """
        try:
            path = os.getcwd()
            return cls(path, _BOOT_ID.read_text().strip(), _read_inode(path))
        except OSError:
            return None

    @classmethod
    def from_job_options(cls, options: Mapping[str, Any]) -> ClientFolder | None:
        """Returns the working directory in the options of a job; None if the client sent none."""
        parts = str(options.get(option_urns.CLIENT_FOLDER, "")).split(" ", 2)
        return cls(parts[2], parts[0], parts[1]) if len(parts) == 3 else None

    def encode(self) -> str:
        """Returns the value of the job option."""
        return f"{self.machine} {self.inode} {self.path}"

    def is_reachable(self, *, resumed: bool) -> bool:
        """Whether the working directory is on this machine, and this process can enter the
        directory.

        Args:
            resumed: whether an earlier server has accepted the job. The machine can have been
                restarted since then.
        """
        try:
            is_same_machine = resumed or _BOOT_ID.read_text().strip() == self.machine
            return (
                is_same_machine
                and _read_inode(self.path) == self.inode
                and os.access(self.path, os.X_OK)
            )
        except (OSError, ValueError):
            return False


def enter_client_folder(path: str) -> None:
    """Makes a client's working directory the working directory of this process.

    The process must serve only jobs of this client.

    Raises:
        HarnessError: The directory doesn't exist anymore, or this process may not enter it.
    """
    try:
        os.chdir(path)
    except OSError as error:
        raise HarnessError(
            f"Can't enter {path}, the working directory of the program that submitted the job:"
            f" {error.strerror}"
        ) from error


def _read_inode(path: str) -> str:
    found = os.stat(path)
    return f"{found.st_dev}:{found.st_ino}"
