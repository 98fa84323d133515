"""Round of random kills during one job."""

from __future__ import annotations

import json
import time
from pathlib import Path

from chaos import Chaos
from crash_points import check, counters, submit
from jobs import Pipelines
from lives import Lives
from victims import Victim

ROUND_SECONDS = 600
_COUNT = 2500
_KILLS = 6
_JOB_SECONDS = 180


def rage(
    lives: Lives, pipelines: Pipelines, victim: Victim, kinds: tuple[str, ...], seed: int
) -> None:
    """Kills processes, then checks the results of the job; prints the kills."""
    job = submit(pipelines, victim, _COUNT, Path("/nowhere"))
    began = time.monotonic()
    told = {"seed": seed, "victim": victim.__name__, "environment": pipelines.environment}
    try:
        Chaos(lives, seed, kinds, _KILLS).rage(job.job_id)
        state = job.wait(_JOB_SECONDS)
        told |= {"state": state.name, **counters(job)}
    finally:
        seconds = round(time.monotonic() - began)
        told |= {"kills": dict(lives.kills), "slowest": lives.slowest, "seconds": seconds}
        print(f"KILLS {json.dumps(told)}", flush=True)
    check(job, _COUNT)
