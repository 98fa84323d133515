"""The server for a pipeline: the one that its options name, or one of this program's own.

A program has one of its own for each set of flags, warm until the program ends: in its own process
where Spark is there already, else in another one.
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

from beam_spark_executor.client.options import in_terms_of_options, server_wishes
from beam_spark_executor.client.server_process import ServerNotStarted, ServerProcess, python_path

_LEAD_TO_SPARK = frozenset(("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))
"""Environment variables of programs that run under ``spark-submit``, or are to use Spark Connect."""
_Key = tuple[tuple[str, ...], tuple[str, ...]]


class Server(Protocol):
    """A job server that answers."""

    @property
    def endpoint(self) -> str:
        """``host:port`` of its Job API."""

    def why_gone(self) -> str:
        """Why it has ended, in words for the user; empty while it runs, or if nobody knows."""


class OwnServer(Server, Protocol):
    """A server of this program's own."""

    @property
    def is_alive(self) -> bool:
        """Whether it takes jobs."""

    def end(self) -> None:
        """Has it end."""


_lock = threading.Lock()
_servers: dict[_Key, OwnServer] = {}
_of_parent: list[OwnServer] = []


@attrs.frozen
class GivenServer:
    """A server that somebody else has started."""

    endpoint: str

    def why_gone(self) -> str:
        """Nobody knows."""
        return ""


def server_for(options: PipelineOptions) -> Server:
    """The server that a pipeline's options ask for; starts one of this program's own if need be.

    Raises:
        ValueError: the options contradict each other.
        ServerNotStarted: it does not start; says why.
    """
    wishes = server_wishes(options)
    if wishes.endpoint:
        return GivenServer(wishes.endpoint)
    try:
        return server_with(wishes.flags)
    except ServerNotStarted as error:
        raise ServerNotStarted(in_terms_of_options(str(error))) from error.__cause__


def server_with(flags: Sequence[str]) -> OwnServer:
    """The program's server with these flags; started, or started again if it has ended.

    Workers import what this program can import now, so another ``sys.path`` is another server. May be
    called from any thread.

    Raises:
        ServerNotStarted: it does not start; says why.
    """
    key = (tuple(flags), tuple(sys.path))
    with _lock:
        server = _servers.get(key)
        if server is None or not server.is_alive:
            server = _servers[key] = _server_here(flags) or ServerProcess(flags)
        return server


def _server_here(flags: Sequence[str]) -> OwnServer | None:
    """A server in this process, where Spark may be there; what that takes is not even imported elsewhere."""
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
    """In a process forked from this one: the servers are its parent's, and the lock may be held."""
    global _lock
    _lock = threading.Lock()
    _of_parent.extend(_servers.values())  # what is in use there is not taken apart here
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
