"""Selection of the job server for a pipeline: the server that the options name, or a server that
this program starts.

A program starts at most one server for each set of flags. The server runs until the program ends.
It runs in the program's process if Spark runs there already, otherwise in a separate process.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from typing import Protocol

import attrs
from apache_beam.options.pipeline_options import PipelineOptions

from beam_spark_executor.client.options import find_requested_server, replace_flags_by_options
from beam_spark_executor.client.server_process import (
    ServerNotStarted,
    ServerProcess,
    make_python_path,
)

_LEAD_TO_SPARK = frozenset(("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))
"""Environment variables of programs that run under ``spark-submit``, or use Spark Connect."""
_Key = tuple[tuple[str, ...], tuple[str, ...]]


class RunningServer(Protocol):
    """A job server that responds to clients."""

    @property
    def endpoint(self) -> str:
        """The ``host:port`` of the server's Job API."""

    def get_exit_reason(self) -> str:
        """Returns why the server has exited, in words for the user; empty while the server runs, or
        if the reason is unknown.
        """


class StartedServer(RunningServer, Protocol):
    """A server that this program has started."""

    @property
    def is_alive(self) -> bool:
        """Returns whether the server accepts jobs."""

    def end(self) -> None:
        """Stops the server that this program has started."""


_lock = threading.Lock()
_servers: dict[_Key, StartedServer] = {}
_of_parent: list[StartedServer] = []


@attrs.frozen
class ExternalServer:
    """A server that another process has started."""

    endpoint: str

    def get_exit_reason(self) -> str:
        """Returns an empty text, because this program can't know why a server of another process has exited."""
        return ""


def get_server_for_options(options: PipelineOptions) -> RunningServer:
    """Returns the server that a pipeline's options request. Starts a server if the options don't
    name a running server.

    Raises:
        ValueError: the options contradict each other.
        ServerNotStarted: the server doesn't start; the text says why.
    """
    wishes = find_requested_server(options)
    if wishes.endpoint:
        return ExternalServer(wishes.endpoint)
    try:
        return find_or_start_server(wishes.flags)
    except ServerNotStarted as error:
        raise ServerNotStarted(replace_flags_by_options(str(error))) from error.__cause__


def find_or_start_server(flags: Sequence[str]) -> StartedServer:
    """Returns the program's server with these flags. Starts the server if it doesn't run yet.

    Workers use the ``sys.path`` of this program, so a program whose ``sys.path`` has changed gets
    another server. May be called from any thread.

    Raises:
        ServerNotStarted: the server doesn't start; the text says why.
    """
    with _lock:
        key = _make_key(flags)
        server = _servers.get(key)
        if server is None or not server.is_alive:
            server = _servers[key] = _start_in_process_server(flags) or ServerProcess(flags)
            # The start of Spark in this process adds folders to sys.path.
            _servers[_make_key(flags)] = server
        return server


def _make_key(flags: Sequence[str]) -> _Key:
    return tuple(flags), tuple(sys.path)


def _start_in_process_server(flags: Sequence[str]) -> StartedServer | None:
    """Starts a server in this process, if Spark runs in this process; otherwise returns None.
    Without Spark, the server's modules aren't imported.
    """
    if "pyspark" not in sys.modules and not _LEAD_TO_SPARK & os.environ.keys():
        return None
    from beam_spark_executor.in_process import InProcessServerNotStarted, start_in_process_server

    try:
        return start_in_process_server(flags, make_python_path())
    except InProcessServerNotStarted as error:
        raise ServerNotStarted(f"Spark's job server did not start: {error}") from error


@atexit.register
def _end_all_servers() -> None:
    for server in _servers.values():
        server.end()


def _forget_servers_of_parent() -> None:
    """Forgets all servers in a forked child of this process, because the servers belong to the
    parent. Replaces the lock, because a thread of the parent could hold it.
    """
    global _lock
    _lock = threading.Lock()
    _of_parent.extend(
        _servers.values()
    )  # keep a reference, so that the child doesn't destroy objects that its parent uses
    _servers.clear()


os.register_at_fork(after_in_child=_forget_servers_of_parent)
