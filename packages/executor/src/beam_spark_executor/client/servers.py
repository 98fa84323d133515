"""The server for a pipeline: the one that its options name, or one that this program starts.

A program has one server of its own for each set of flags. It stays until the program ends. It runs
in the program's process if Spark runs there already, otherwise in a separate process.
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

from beam_spark_executor.client.options import replace_flags_by_options, server_wishes
from beam_spark_executor.client.server_process import ServerNotStarted, ServerProcess, python_path

_LEAD_TO_SPARK = frozenset(("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))
"""The variables of programs that run under ``spark-submit``, or use Spark Connect."""
_Key = tuple[tuple[str, ...], tuple[str, ...]]


class RunningServer(Protocol):
    """A job server that answers."""

    @property
    def endpoint(self) -> str:
        """The ``host:port`` of its Job API."""

    def why_gone(self) -> str:
        """Returns why it has exited, in words for the user; empty while it runs, or if the reason is unknown."""


class OwnServer(RunningServer, Protocol):
    """A server that this program has started."""

    @property
    def is_alive(self) -> bool:
        """Returns whether the server accepts jobs."""

    def end(self) -> None:
        """Ends the server."""


_lock = threading.Lock()
_servers: dict[_Key, OwnServer] = {}
_of_parent: list[OwnServer] = []


@attrs.frozen
class GivenServer:
    """A server that another process has started."""

    endpoint: str

    def why_gone(self) -> str:
        """Returns an empty text, because the reason is unknown."""
        return ""


def server_for(options: PipelineOptions) -> RunningServer:
    """Returns the server that a pipeline's options ask for; starts one for this program if needed.

    Raises:
        ValueError: the options contradict each other.
        ServerNotStarted: the server doesn't start; the text says why.
    """
    wishes = server_wishes(options)
    if wishes.endpoint:
        return GivenServer(wishes.endpoint)
    try:
        return server_with(wishes.flags)
    except ServerNotStarted as error:
        raise ServerNotStarted(replace_flags_by_options(str(error))) from error.__cause__


def server_with(flags: Sequence[str]) -> OwnServer:
    """Returns the program's server with these flags, and starts it if it doesn't run.

    Workers import what this program can import now, so another ``sys.path`` needs another server.
    May be called from any thread.

    Raises:
        ServerNotStarted: the server doesn't start; the text says why.
    """
    key = (tuple(flags), tuple(sys.path))
    with _lock:
        server = _servers.get(key)
        if server is None or not server.is_alive:
            server = _servers[key] = _server_here(flags) or ServerProcess(flags)
        return server


def _server_here(flags: Sequence[str]) -> OwnServer | None:
    """Returns a server in this process if Spark runs here. Other programs don't even import the modules for it."""
    if "pyspark" not in sys.modules and not _LEAD_TO_SPARK & os.environ.keys():
        return None
    from beam_spark_executor.in_process import NotStarted, server_here

    try:
        return server_here(flags, python_path())
    except NotStarted as error:
        raise ServerNotStarted(f"Spark's job server did not start: {error}") from error


@atexit.register
def _end_all() -> None:
    for server in _servers.values():
        server.end()


def _forget() -> None:
    """Clears the servers in a process forked from this one, because they belong to its parent, and the
    lock may be held.
    """
    global _lock
    _lock = threading.Lock()
    _of_parent.extend(
        _servers.values()
    )  # keep a reference, so that the child doesn't destroy objects that its parent uses
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
