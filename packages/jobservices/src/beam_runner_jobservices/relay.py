"""Relay (local proxy) to a job server that requires credentials, for clients that can't send a
token or a certificate.

    python -m beam_runner_jobservices.relay --to jobs.example.com:8099 --token-file token --tls

Beam's own SDKs open plain channels, so their job endpoint is the relay's address. The relay passes
calls on, streams included, with its own credentials. It listens on loopback only, and every process
that reaches the relay can use its credentials.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from beam_runner_jobservices._protos import DecodeError
from beam_runner_jobservices.binding import bind_port
from beam_runner_jobservices.channels import (
    AUTHORIZATION,
    CHANNEL_OPTIONS,
    Credentials,
    open_channel,
)
from beam_runner_jobservices.credential_flags import add_credential_flags, read_credentials
from beam_runner_jobservices.errors import JobServicesError
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.threads import ThreadPerCall
from beam_runner_jobservices.wire.jobs import replace_staging_endpoint

_PREPARE = "/org.apache.beam.model.job_management.v1.JobService/Prepare"
_NO_DEADLINE = 1e9


class Relay:
    """Proxy that forwards all calls to the server at `to` (`host:port`), with the given
    credentials.

    The relay is a context manager and serves until the context ends. `port` 0 selects a free port.

    Raises:
        AddressError: the relay can't listen on the port.
    """

    def __init__(self, to: str, credentials: Credentials, port: int = 0) -> None:
        self._channel = open_channel(to, credentials)
        self._server = grpc.server(ThreadPerCall("beam-job-relay"), options=CHANNEL_OPTIONS)
        self.port = bind_port(self._server, "localhost", port, AccessGuard())
        self.address = f"localhost:{self.port}"
        """The `host:port` for clients on this machine."""
        self._server.add_generic_rpc_handlers((_RelayHandler(self._channel, self.address),))

    def __enter__(self) -> Relay:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._channel.close()


class _RelayHandler(grpc.GenericRpcHandler):
    """gRPC handler for all methods, which forwards messages as bytes."""

    def __init__(self, channel: Any, address: str) -> None:
        self._channel = channel
        self._address = address

    def service(self, details: Any) -> Any:
        method = details.method

        def forward_messages(
            requests: Iterator[bytes], context: grpc.ServicerContext
        ) -> Iterator[bytes]:
            call = self._channel.stream_stream(method)(
                requests, timeout=_compute_time_left(context), metadata=_select_metadata(context)
            )
            context.add_callback(call.cancel)
            try:
                for answer in call:
                    yield self._replace_staging_endpoint(answer) if method == _PREPARE else answer
            except grpc.RpcError as error:
                context.abort(error.code(), error.details() or "")

        # In gRPC's wire protocol, a unary call is a stream of one message.
        return grpc.stream_stream_rpc_method_handler(forward_messages)

    def _replace_staging_endpoint(self, answer: bytes) -> bytes:
        """Returns an answer to Prepare with the relay's address as the address for artifacts."""
        try:
            return replace_staging_endpoint(answer, self._address)
        except DecodeError:
            return answer


def _compute_time_left(context: grpc.ServicerContext) -> float | None:
    """Returns the seconds to the client's deadline, or None. Without a deadline gRPC reports a huge number."""
    left = context.time_remaining()
    return None if left is None or left > _NO_DEADLINE else left


def _select_metadata(context: grpc.ServicerContext) -> tuple[tuple[str, str | bytes], ...]:
    """Returns the client's metadata, without the keys that belong to the connection or the relay."""
    said = context.invocation_metadata()
    return tuple(
        (name, value)
        for name, value in said
        if name != AUTHORIZATION and not name.startswith((":", "grpc-", "user-agent"))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Relays calls until a signal interrupts the process. Returns the exit code."""
    flags = _make_parser().parse_args(arguments)
    try:
        with Relay(flags.to, read_credentials(flags), flags.port) as relay:
            print(f"Relaying {relay.address} to {flags.to}", flush=True)
            threading.Event().wait()
    except JobServicesError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m beam_runner_jobservices.relay",
        description="Relays connections of clients on this machine to a job server"
        " that requires TLS or a token.",
        allow_abbrev=False,
    )
    flag = parser.add_argument
    flag("--to", required=True, metavar="HOST:PORT", help="the guarded server")
    flag(
        "--port",
        type=int,
        default=8099,
        help="port on the loopback interface (default: %(default)s)",
    )
    add_credential_flags(flag)
    return parser


if __name__ == "__main__":
    sys.exit(main())
