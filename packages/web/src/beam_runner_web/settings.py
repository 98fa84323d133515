"""What a web interface is started with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    # Beam comes with it, which takes seconds; the flags are to be known before.
    from beam_runner_jobservices.channels import Credentials

DEFAULT_PORT = 8074


@attrs.frozen
class WebSettings:
    """How the pages are served.

    - `job_endpoint`: `host:port` of the job server, as people are told.
    - `job_target`: how it is reached from here, where that is another way.
    - `credentials`: what is shown to it, where it asks for something.
    - `host`, `port`: where to listen; port 0 picks a free one, None is `DEFAULT_PORT`, or a free one
      where that is taken.
    - `read_only`: whether jobs can be looked at, and not ended.
    - `allowed_hosts`: names under which browsers may ask, beside those of this machine itself.
    - `token`: what a browser must show once; needed where others than this machine can ask.
    - `root_path`: the path under which a proxy shows the pages, without a slash at its end.
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


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
