"""The limits that keep one client, one job or one long-lived server from using up everything."""

from __future__ import annotations

import attrs


@attrs.frozen
class Limits:
    """Limits of a job server. Durations are in seconds, texts in characters.

    - `messages`, `message_chars`: what is kept of one job's messages for readers; the oldest go
      first.
    - `text_chars`: length at which one message is cut. Clients refuse answers above 4 MiB unless
      told otherwise.
    - `streams`: state and message streams open at once; `calls`: everything open at once.
    - `request_bytes`: of one request; up to twice as many are read and refused in words, and what is
      larger gRPC refuses unread.
    - `preparations`, `preparation_bytes`, `preparation_ttl`: how many prepared jobs may wait to be run,
      of how many bytes in all, packed as they wait, or one alone as it came; and how long.
    - `staging_idle`: how long a client that stages artifacts may be silent.
    - `ended_jobs`: how many ended jobs are remembered, and of these about as many as packed make
      `ended_bytes` on the disk, where jobs outlive the server, or else `ended_bytes_in_memory`.
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
    ended_bytes: int = 256 << 20
    ended_bytes_in_memory: int = 64 << 20
