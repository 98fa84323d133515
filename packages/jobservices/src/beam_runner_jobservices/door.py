"""How a program that belongs to a server reaches it, whoever else is kept out."""

from __future__ import annotations

import attrs


@attrs.frozen
class Door:
    """The way to a job server for a program that its owner runs beside it.

    - `address`: `host:port`, as clients are told.
    - `target`: what to open a channel to, without TLS: the same, or a Unix socket of a guarded server.
    - `token`: what to show with every call, if anything.
    - `guarded`: whether others have to show something, so that what the program shows and does is not
      for everybody either.
    """

    address: str
    target: str
    token: str = attrs.field(default="", repr=False)
    guarded: bool = False
