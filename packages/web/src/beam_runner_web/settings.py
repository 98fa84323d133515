"""Settings of the web interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    # Import the job services here and not at the top, because they load Beam, which takes seconds.
    from beam_runner_jobservices.channels import Credentials
    from beam_runner_jobservices.users_file import UsersFile

DEFAULT_PORT = 8074


@attrs.frozen
class WebSettings:
    """Settings of the pages' server.

    Attributes:
        job_endpoint: the `host:port` of the job server, as shown to people.
        job_target: the target by which this process reaches the server, if it differs.
        credentials: the credentials for the job server, if it requires some.
        host, port: the address to listen on. Port 0 selects a free port, and None is
            `DEFAULT_PORT`, or a free port if that is in use.
        read_only: whether jobs can be viewed but not ended.
        allowed_hosts: host names that browsers may use, in addition to this machine's own.
        token: the token that a browser must send once, which gives all rights.
        users: the users of the job server, whose tokens open the pages and give the users' rights.
            A token or users are required if other machines can reach the pages.
        root_path: the path under which a proxy serves the pages, without a trailing slash.
    """

    job_endpoint: str
    host: str = "localhost"
    port: int | None = None
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()
    token: str = attrs.field(default="", repr=False)
    root_path: str = ""
    job_target: str = ""
    credentials: Credentials | None = None
    users: UsersFile | None = attrs.field(default=None, repr=False)

    @property
    def requires_token(self) -> bool:
        """Whether a browser must send a token."""
        return bool(self.token) or self.users is not None


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
