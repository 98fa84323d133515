"""Import for worker processes that reduces the limit for an idle SDK harness from 60 s to 2 s."""

from __future__ import annotations

from functools import partial

from beam_runner_worker.fnapi import server

server.HarnessLimits = partial(server.HarnessLimits, connect=2.0)  # type: ignore[misc]
