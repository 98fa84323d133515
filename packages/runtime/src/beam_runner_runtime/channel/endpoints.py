"""What opens the channel, and to whom: each token to one job, or to one place where a process stands by, and to nothing else.

Worker processes run user code, which may read whatever its process was given. So that is no more than the process needs: with
it nobody can ask for another job's work or files, or say that another job's bundles are done.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import attrs

from beam_runner_runtime.channel.messages import Endpoint

KNOCK = "knock"
"""What a token opens that only tries whether the channel is to be reached."""


def to_job(job_id: str) -> str:
    """What the token of a job's process opens."""
    return f"job/{job_id}"


def to_stand_by(number: int) -> str:
    """What the token of a process opens that stands by under a number, until it is told what to do."""
    return f"stand-by/{number}"


class Tokens:
    """Makes tokens for one server, and knows them again."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def make(self, opens: str) -> str:
        """The token that opens something, always the same."""
        digest = hmac.new(self._secret, opens.encode(), hashlib.sha256).hexdigest()
        return f"{digest}.{opens}"

    def opened_by(self, token: str) -> str | None:
        """What a token opens; None if it was not made here, and finding that takes as long for any."""
        opens = token.partition(".")[2]
        genuine = hmac.compare_digest(token.encode(), self.make(opens).encode())
        return opens if genuine else None


@attrs.frozen
class Endpoints:
    """Where the channel is, for each who may call it.

    Attributes:
        address: of the channel, as executors call it.
        tokens: of its server.
        certificate: by which executors know it (PEM); empty if nothing is encrypted.
    """

    address: str
    tokens: Tokens
    certificate: str = attrs.field(default="", repr=False)

    def of(self, opens: str) -> Endpoint:
        """For who may open that and no more: `to_job`, `to_stand_by` or `KNOCK`."""
        return Endpoint(self.address, self.tokens.make(opens), self.certificate)
