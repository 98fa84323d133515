"""Beam's Java expansion service as a process, and H2 as the database that its JdbcIO reads and writes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from free_ports import find_free_ports
from java_servers import QUICK
from waiting import wait_until

_SECONDS = 120.0


def write_boot_script(folder: Path, class_path: str) -> Path:
    """Writes the command of a PROCESS environment that becomes a Java harness, and returns its path."""
    boot = folder / "boot"
    options = " ".join(QUICK)
    boot.write_text(
        f'#!/bin/sh\nexec java {options} -cp "{class_path}" Boot "$@"\n', encoding="utf-8"
    )
    boot.chmod(0o755)
    return boot


@contextlib.contextmanager
def expansion_service(folder: Path, class_path: str) -> Iterator[str]:
    """Starts an expansion service and yields its address; its transforms run in PROCESS environments.

    The service stages the boot script alone, because the boot script knows the class path.
    """
    boot = write_boot_script(folder, class_path)
    options = (
        "--defaultEnvironmentType=PROCESS",
        f"--defaultEnvironmentConfig={json.dumps({'command': str(boot)})}",
        f"--filesToStage={boot}",
    )
    program = "org.apache.beam.sdk.expansion.service.ExpansionService"
    (port,) = find_free_ports(1)
    with _java_server(folder / "expansion.log", class_path, port, program, str(port), *options):
        yield f"localhost:{port}"


@contextlib.contextmanager
def h2_database(folder: Path, class_path: str) -> Iterator[str]:
    """Starts an H2 server, and yields the JDBC URL of a new database."""
    (port,) = find_free_ports(1)
    options = ("-tcp", "-tcpPort", str(port), "-ifNotExists", "-baseDir", str(folder))
    with _java_server(folder / "h2.log", class_path, port, "org.h2.tools.Server", *options):
        yield f"jdbc:h2:tcp://localhost:{port}/./tests"


def run_sql(class_path: str, url: str, statement: str) -> None:
    """Executes a statement of SQL in an H2 database."""
    shell = ("org.h2.tools.Shell", "-url", url, "-user", "sa", "-password", "", "-sql", statement)
    command = ["java", *QUICK, "-cp", class_path, *shell]
    subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)


@contextlib.contextmanager
def _java_server(
    log: Path, class_path: str, port: int, program: str, *arguments: str
) -> Iterator[None]:
    """Runs a Java program for the block; the block starts after the program listens on the port."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["java", *QUICK, "-cp", class_path, program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: _listens(port), _SECONDS, lambda: log.read_text()[-2000:])
        yield
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
