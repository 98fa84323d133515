"""Access to a job server for programs of the same owner, such as the web interface, even if the
server requires credentials.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from beam_runner_model.readiness import Readiness

from beam_runner_jobservices.users_file import UsersFile


@attrs.frozen
class LocalAccess:
    """Address and credentials by which a program of the server's owner connects to the job server.

    Attributes:
        address: the `host:port` that the server advertises to clients.
        target: the target for a channel without TLS: the address, or a Unix socket of a guarded
            server.
        token: the token for every call; empty if the server requires no token.
        users: the users who may use the program's own interface, with their rights; None if the
            server has no users.
        guarded: whether other clients need credentials. If so, the program must also restrict
            access to its own interface.
        announce_pages: called with the URL of web pages about the jobs, which the server passes on
            to its clients.
        check_readiness: returns whether the server can run jobs. Takes milliseconds, and any thread
            may call it.
    """

    address: str
    target: str
    token: str = attrs.field(default="", repr=False)
    guarded: bool = False
    users: UsersFile | None = attrs.field(default=None, repr=False, eq=False, kw_only=True)
    announce_pages: Callable[[str], None] = attrs.field(
        default=lambda url: None, repr=False, eq=False
    )
    check_readiness: Callable[[], Readiness] = attrs.field(
        default=lambda: Readiness.READY, repr=False, eq=False
    )
