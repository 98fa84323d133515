"""Check for Docker: a `docker` command that reaches a daemon."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time

_SECONDS = 5.0
_ASK_AGAIN = 60.0
_lock = threading.Lock()
_told: dict[str, tuple[float, str]] = {}


def find_docker_problem() -> str:
    """Returns the reason why containers can't run on this machine, as a clause; an empty text if
    containers can run.

    The check takes up to 5 s. The result of the check is cached for one minute.
    """
    command = shutil.which("docker")
    if command is None:
        return "the command 'docker' isn't installed"
    with _lock:
        asked, answer = _told.get(command, (0.0, ""))
        if not asked or time.monotonic() > asked + _ASK_AGAIN:
            answer = _find_daemon_problem(command)
            _told[command] = time.monotonic(), answer
        return answer


def _find_daemon_problem(command: str) -> str:
    try:
        subprocess.run(
            [command, "version", "--format", "{{.Server.Version}}"],
            check=True,
            capture_output=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"the command 'docker' got no response from its daemon within {_SECONDS:.0f} seconds"
    except (OSError, subprocess.CalledProcessError):
        return "the command 'docker' can't connect to its daemon"
    return ""
