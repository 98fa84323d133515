"""What tests of servers of others in Java share: their classes, which Maven fetches once, how they are begun, and free ports."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java's options for what does little."""


def reason_not_to() -> str:
    """Why no such server can be had here; empty if one can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not found" if missing else ""


def class_path(pom: Path, folder: Path) -> str:
    """Where the classes are that a pom names.

    Args:
        pom: what is wanted.
        folder: for what Maven writes.
    """
    listed = folder / "classpath"
    command = ("mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listed}")
    subprocess.run(command, cwd=pom.parent, check=True, timeout=1800)
    return listed.read_text(encoding="utf-8").strip()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
