"""Limits of a job server, which prevent that one client, one job or old data uses all resources."""

from __future__ import annotations

import attrs


@attrs.frozen
class ServerLimits:
    """Limits of a job server. Durations are in seconds, texts in characters.

    Attributes:
        messages, message_chars: the stored messages of one job; the server drops the oldest first.
        text_chars: the length at which the server truncates a message. Clients refuse answers above
            4 MiB by default.
        streams: the number of open state and message streams; `calls`: the number of all open
            calls.
        request_bytes: the size of one request. The server reads up to twice as much to answer with
            a clear error. gRPC refuses larger requests unread.
        preparations, preparation_bytes, preparation_ttl: the number, the packed size and the
            lifetime of prepared jobs that wait to be run. One job alone may have the size unpacked.
        staging_idle: the time for which a client that stages artifacts may be silent.
        ended_jobs: the number of finished jobs that the server remembers.
        ended_seconds: the time for which the server remembers a finished job; None for no limit.
        ended_bytes, ended_bytes_in_memory: the approximate packed size of finished jobs, on disk if
            jobs outlive the server, otherwise in memory.
    """

    messages: int = 10_000
    message_chars: int = 16 << 20
    text_chars: int = 512 << 10
    streams: int = 600
    calls: int = 1_000
    request_bytes: int = 256 << 20
    preparations: int = 400
    preparation_bytes: int = 256 << 20
    preparation_ttl: float = 3600.0
    staging_idle: float = 300.0
    ended_jobs: int = 500
    ended_seconds: float | None = None
    ended_bytes: int = 256 << 20
    ended_bytes_in_memory: int = 64 << 20
