"""The server for a pipeline: the one that its options name, or one of this program's own.

A program has one of its own for each set of flags, warm until the program ends.
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

from beam_spark_executor.client.options import server_wishes
from beam_spark_executor.client.server_process import ServerProcess

_Key = tuple[tuple[str, ...], tuple[str, ...]]

_lock = threading.Lock()
_servers: dict[_Key, ServerProcess] = {}


class Server(Protocol):
    """A job server that answers."""

    @property
    def endpoint(self) -> str:
        """``host:port`` of its Job API."""

    def why_gone(self) -> str:
        """Why it has ended, in words for the user; empty while it runs, or if nobody knows."""


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
    return GivenServer(wishes.endpoint) if wishes.endpoint else server_with(wishes.flags)


def server_with(flags: Sequence[str]) -> ServerProcess:
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
            server = _servers[key] = ServerProcess(flags)
        return server


@atexit.register
def _end_all() -> None:
    for server in _servers.values():
        server.end()


def _forget() -> None:
    """In a process forked from this one: the servers are its parent's, and the lock may be held."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
