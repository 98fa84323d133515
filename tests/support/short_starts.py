"""Worker processes that have imported this give up an SDK harness that does nothing for two seconds, in place of sixty."""

from __future__ import annotations

from functools import partial

from beam_runner_worker.fnapi import server

server.Limits = partial(server.Limits, connect=2.0)  # type: ignore[misc]
