"""Import for worker processes that reduces the limit for an idle SDK harness from 60 s to 2 s."""

from __future__ import annotations

from beam_runner_runtime.shutdown.limits import LIMITS

LIMITS.harness_connect_seconds = 2.0
