"""Server addresses with access tokens for worker processes. A token grants access to one job, or to
the orders for one stand-by process.

Worker processes run user code, and user code can read all data of its process. Therefore, a token
grants only the access that its process needs. With a token for one job, a process can't read the
work or files of another job, and can't report bundles of another job as done.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import attrs

from beam_runner_runtime.channel.messages import Endpoint

KNOCK = "knock"
"""Scope of a token that only permits a test of the connection."""


def make_job_scope(job_id: str) -> str:
    """Returns the token scope for processes of a job."""
    return f"job/{job_id}"


def make_stand_by_scope(number: int) -> str:
    """Returns the token scope for a process that waits for its first order from the server."""
    return f"stand-by/{number}"


class TokenIssuer:
    """Issuer and verifier of a server's access tokens for the channel."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def make_token(self, opens: str) -> str:
        """Returns the token for the scope `opens`. The token for a scope never changes."""
        digest = hmac.new(self._secret, opens.encode(), hashlib.sha256).hexdigest()
        return f"{digest}.{opens}"

    def verify_token(self, token: str) -> str | None:
        """Returns the scope of a token, or None if this server didn't issue the token. The
        comparison takes constant time, as protection against timing attacks.
        """
        opens = token.partition(".")[2]
        genuine = hmac.compare_digest(token.encode(), self.make_token(opens).encode())
        return opens if genuine else None


@attrs.frozen
class EndpointFactory:
    """Factory of endpoints of the channel, one for each token scope.

    Attributes:
        address: address of the channel, as executors reach it.
        tokens: issuer of the server's tokens.
        certificate: server certificate that executors trust (PEM); empty without encryption.
    """

    address: str
    tokens: TokenIssuer
    certificate: str = attrs.field(default="", repr=False)

    def make_endpoint(self, opens: str) -> Endpoint:
        """Returns the endpoint with a token for one scope: from `make_job_scope`, from
        `make_stand_by_scope`, or `KNOCK`.
        """
        return Endpoint(self.address, self.tokens.make_token(opens), self.certificate)
