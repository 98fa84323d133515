"""Fork server: a process from which all Python daemons of Spark's Java process are forked. A daemon
forks Spark's Python workers.

Spark starts a daemon for each pool of workers, and a daemon's imports take seconds. So a *fork
server* imports the modules once. Each process that Spark starts as a daemon sends its standard
streams, arguments and environment to the fork server. The fork server forks the real daemon, and
the process waits for its end. The job server starts a fork server if Spark's workers use the same
Python (`open_job_server_socket`, `serve_fork_requests`). Otherwise, the first daemon that Spark
starts creates a fork server. A reaper (:mod:`~beam_runner_runtime.processes.reaper`) watches all of
them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable
from typing import NoReturn

from beam_runner_runtime.processes import reaper

from beam_spark_executor.spark.shutdown import SPARK_LIMITS

SERVER_VARIABLE = "BEAM_SPARK_SERVER"
"""Internal environment variable by which child processes find the job server's fork server. The
value is `PID.RANDOM`.
"""

_ATTEMPTS = 3
_HEADER = struct.Struct("!I")
_CREDENTIALS = struct.Struct("3i")


def is_fork_server_supported() -> bool:
    """Returns whether this operating system supports the fork server; otherwise each daemon imports by itself."""
    return reaper.is_reaper_supported()


def run_daemon_in_fork(prepare: Callable[[], None], run_daemon: Callable[[], None]) -> None:
    """Runs a Python daemon of Spark in a process that the fork server forks, and waits for the end
    of the process.

    Args:
        prepare: imports the modules that daemons need; called once in the fork server.
        run_daemon: the daemon's work. It runs in the forked process, with the standard streams,
            arguments, environment and working directory of this process.

    Raises:
        ConnectionError: no fork server exists, and none can be created.
    """
    ended = _start_daemon_at_job_server() or _start_daemon_at_java_process(prepare, run_daemon)
    # Close this process's copies of Spark's pipes, so that the pipes close when the daemon exits.
    reaper.redirect_to_null(0, 1, 2)
    select.select([ended], [], [])


def open_job_server_socket() -> socket.socket:
    """Opens the socket at which processes of this server's Spark request the fork of a daemon.

    Raises:
        OSError: another process listens there.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(_make_job_server_socket_name(os.getpid()))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _start_daemon_at_job_server() -> int | None:
    """Requests a daemon from the job server's fork server. Returns None if no fork server for this
    Python exists.

    Returns a file that becomes readable when the daemon exits.
    """
    server = _find_job_server_pid()
    if server is not None:
        with contextlib.suppress(OSError):
            return _start_daemon(_make_job_server_socket_name(server))
    return None


def _make_job_server_socket_name(server: int) -> str:
    python = zlib.crc32(f"{sys.prefix} {sys.version}".encode())
    return f"\0beam-spark-fork-server-{os.getuid()}-of-{server}-{python:x}"


def _find_job_server_pid() -> int | None:
    process, _, _ = os.environ.get(SERVER_VARIABLE, "").partition(".")
    return int(process) if process.isdecimal() else None


def _start_daemon_at_java_process(
    prepare: Callable[[], None], run_daemon: Callable[[], None]
) -> int:
    """Requests a daemon from the fork server of the Java process. Creates this fork server if
    necessary.

    Returns a file that becomes readable when the daemon exits.
    """
    owner = os.getppid()
    name = f"\0beam-spark-fork-server-{os.getuid()}-{owner}"
    for _ in range(_ATTEMPTS):
        _create_fork_server(name, owner, prepare, run_daemon)
        with contextlib.suppress(OSError):
            return _start_daemon(name)
    raise ConnectionError("the fork server doesn't respond")


def _start_daemon(name: str) -> int:
    """Requests a daemon from a fork server, and forwards SIGTERM to the daemon. Returns a file that
    becomes readable when the daemon exits.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        ended = open_exit_file(_request_fork(name))
        signal.signal(signal.SIGTERM, lambda number, frame: _forward_signal(ended, number))
        return ended
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def open_exit_file(process: int) -> int:
    """Returns a file that becomes readable when the process exits. If the process has exited
    already, the file is readable immediately.
    """
    with contextlib.suppress(ProcessLookupError):
        return os.pidfd_open(process)
    return os.open(os.devnull, os.O_RDONLY)


def _create_fork_server(
    name: str, owner: int, prepare: Callable[[], None], run_daemon: Callable[[], None]
) -> None:
    """Creates a fork server, unless one listens under this name."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(name)
        except OSError:
            return
        listener.listen()
        if os.fork() == 0:
            # Only the daemon uses the streams that Spark reads and writes. If another process had
            # them, Spark would wait forever after a daemon that fails at its start.
            reaper.redirect_to_null(0)
            os.dup2(2, 1)
            server = _find_job_server_pid()
            owners = [owner] if server is None else [owner, server]
            reaper.run_with_reaper(
                lambda: serve_fork_requests(listener, prepare, run_daemon), owners
            )


def _request_fork(name: str) -> int:
    """Sends this process's streams, arguments and environment to the fork server. Returns the
    process id of the forked daemon.
    """
    told = {
        "arguments": sys.argv,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": sys.path,
    }
    text = json.dumps(told).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(name)
        if not _is_same_user(connection):
            raise ConnectionError(
                "a process of another user listens at the socket of the fork server"
            )
        socket.send_fds(connection, [_HEADER.pack(len(text))], [0, 1, 2])
        connection.sendall(text)
        answer = connection.recv(_HEADER.size)
    if not answer:
        raise ConnectionError("the fork server has exited")
    return int(_HEADER.unpack(answer)[0])


def serve_fork_requests(
    listener: socket.socket, prepare: Callable[[], None], run_daemon: Callable[[], None]
) -> NoReturn:
    """Forks a daemon for each connection, until the reaper ends this process; see `run_daemon_in_fork`."""
    reaper.redirect_to_null(0)
    os.dup2(2, 1)  # only the daemon writes to the stream that Spark reads
    prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for daemons
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError, ValueError):
            if not _is_same_user(connection):
                continue
            connection.settimeout(SPARK_LIMITS.hand_over_seconds)
            header, streams, _, _ = socket.recv_fds(connection, _HEADER.size, 3)
            try:
                told = json.loads(_receive_exactly(connection, _HEADER.unpack(header)[0]))
                daemon = os.fork()
                if daemon == 0:
                    listener.close()
                    connection.close()
                    _become_daemon(told, streams, run_daemon)
                connection.sendall(_HEADER.pack(daemon))
            finally:
                for stream in streams:
                    os.close(stream)


def _become_daemon(
    told: dict[str, object], streams: list[int], run_daemon: Callable[[], None]
) -> NoReturn:
    """Runs a Python daemon of Spark with the streams, arguments and environment of the process that
    requested the daemon.
    """
    code = 1
    try:
        reaper.exit_with_parent()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        environment, arguments, path = told["environment"], told["arguments"], told["path"]
        assert isinstance(environment, dict)
        assert isinstance(arguments, list)
        assert isinstance(path, list)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv, sys.path[:] = arguments, path
        os.chdir(str(told["folder"]))
        time.tzset()
        run_daemon()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the fork server exited within a message")
        received += piece
    return bytes(received)


def _is_same_user(connection: socket.socket) -> bool:
    """Returns whether the process at the other end of the socket belongs to this user. Any user can
    connect to the socket's name.
    """
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[1]) == os.getuid()


def _forward_signal(process: int, number: int) -> None:
    # Ignore errors, because the process may have exited before or after its pidfd was opened.
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(process, number)
