"""Real PostgreSQL and MariaDB: servers that tests can kill, freeze, and restart from their disk."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from free_ports import find_free_ports
from processes import is_alive
from waiting import wait_until

POM = Path(__file__).parents[1] / "sinks" / "pom.xml"
_SECONDS = 120.0
_PERSON = "nobody"
"""User of the servers if root runs the tests. PostgreSQL refuses to run as root."""


class DatabaseServer:
    """Server on the loopback interface, with a database ``shop`` and no password.

    Args:
        folder: folder that all users can read, for programs and data.
        jar: archive with the programs.

    Attributes:
        dialect: name of the dialect for `WriteToSql`.
        port: port of the server.
    """

    dialect: str

    def __init__(self, folder: Path, jar: Path) -> None:
        (self.port,) = find_free_ports(1)
        self._log = folder / "log"
        self._data = folder / "data"
        self._programs = folder / "programs"
        self._data.mkdir()
        self._person: dict[str, Any] = {"cwd": folder}
        if os.geteuid() == 0:
            person = pwd.getpwnam(_PERSON)
            os.chown(self._data, person.pw_uid, person.pw_gid)
            self._person |= {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": ()}
        self._unpack(jar)
        self._initialize()
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it accepts connections. It recovers after a kill."""
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(self._command(), stdout=log, stderr=log, **self._person)
        wait_until(self._answers, _SECONDS, lambda: self._log.read_text("utf-8", "replace")[-2000:])

    def kill(self) -> None:
        """Kills all processes of the server."""
        processes = self._processes()
        self._signal(signal.SIGKILL)
        self._server.wait()
        wait_until(lambda: not any(map(is_alive, processes)), _SECONDS, "the database has ended")

    def freeze(self) -> None:
        """Stops all processes of the server until `thaw`. Connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues all processes of the server."""
        self._signal(signal.SIGCONT)

    def connect_to(self, port: int, **options: Any) -> Callable[[], Any]:
        """Returns a function that connects by a port, which Beam can pickle."""
        raise NotImplementedError

    @property
    def connect(self) -> Callable[[], Any]:
        """Function that connects to the database ``shop``."""
        return self.connect_to(self.port)

    def query(self, statement: str) -> list[Any]:
        """Runs a statement in a transaction, and returns the rows of its result."""
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows
        finally:
            connection.close()

    def _unpack(self, jar: Path) -> None:
        raise NotImplementedError

    def _initialize(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _run(self, *command: str, input: str = "") -> None:
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, check=False, **self._person
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]

    def _answers(self) -> bool:
        assert self._server.poll() is None, self._log.read_text("utf-8", "replace")[-2000:]
        try:
            self.connect_to(self.port)().close()
        except Exception as error:
            if type(error).__name__ != "OperationalError":
                raise
            return False
        return True

    def _processes(self) -> list[int]:
        main = self._server.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text()
        return [main, *map(int, children.split())]

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue


class PostgreSqlServer(DatabaseServer):
    """PostgreSQL."""

    dialect = "postgresql"

    def connect_to(self, port: int, **options: Any) -> Callable[[], Any]:
        import psycopg  # other sinks are tested without the clients of databases

        address = f"host=127.0.0.1 port={port} user=postgres dbname=shop sslmode=disable"
        return partial(psycopg.connect, f"{address} gssencmode=disable", **options)

    def _unpack(self, jar: Path) -> None:
        with zipfile.ZipFile(jar) as archive:
            (name,) = (one for one in archive.namelist() if one.endswith(".txz"))
            with (
                archive.open(name) as packed,
                tarfile.open(fileobj=packed, mode="r:xz") as programs,
            ):
                programs.extractall(self._programs, filter="tar")

    def _initialize(self) -> None:
        data = ("-D", str(self._data))
        self._run(
            *(str(self._programs / "bin" / "initdb"), "--auth=trust", "--username=postgres"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", *data),
        )
        create = "CREATE DATABASE shop;\n"
        self._run(
            *(str(self._programs / "bin" / "postgres"), "--single", *data, "postgres"), input=create
        )

    def _command(self) -> list[str]:
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=60")
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._data)]
        return [*command, "-p", str(self.port), *(part for one in settings for part in ("-c", one))]


class MariaDbServer(DatabaseServer):
    """MariaDB."""

    dialect = "mariadb"

    def connect_to(self, port: int, **options: Any) -> Callable[[], Any]:
        import pymysql

        account = {"user": "root", "database": "shop", "ssl_disabled": True}
        return partial(pymysql.connect, host="127.0.0.1", port=port, **account, **options)

    def _unpack(self, jar: Path) -> None:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.infolist():
                path = entry.filename.partition("/linux/")[2]
                if entry.is_dir() or not path.startswith(("bin/mariadbd", "share/")):
                    continue
                target = self._programs / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file)
                target.chmod(0o755)

    def _initialize(self) -> None:
        # The server needs no system tables, because it has no users.
        statements = ("CREATE DATABASE mysql;", "CREATE DATABASE shop CHARACTER SET utf8mb4;")
        self._run(*self._command(), "--bootstrap", input="\n".join(statements))

    def _command(self) -> list[str]:
        return [
            str(self._programs / "bin" / "mariadbd"),
            "--no-defaults",
            f"--basedir={self._programs}",
            f"--datadir={self._data}",
            f"--lc-messages-dir={self._programs / 'share'}",
            f"--socket={self._data / 'socket'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-grant-tables",
            "--innodb-buffer-pool-size=32M",
        ]
