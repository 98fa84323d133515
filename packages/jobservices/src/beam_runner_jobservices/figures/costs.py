"""Costs of a job: the sum of what its stages cost."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from beam_runner_jobservices.figures.step_metrics import StageFigures


@attrs.frozen
class JobCosts:
    """Costs of a job's bundles.

    Attributes:
        slot_seconds: the time for which bundles used a slot.
        cpu_seconds: the CPU time of the bundles' threads; None if no stage measures it.
        peak_memory_bytes: the largest peak memory of a worker process; None if no stage measures it.
        unmeasured_stages: the number of stages without CPU time and memory, because their user code runs
            in an SDK harness.
    """

    slot_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    unmeasured_stages: int = 0


def compute_job_costs(stages: Iterable[StageFigures]) -> JobCosts | None:
    """Returns the costs of a job; None if the runner doesn't report the costs of any stage."""
    known = [one for one in stages if one.slot_seconds is not None]
    if not known:
        return None
    cpu = [one.cpu_seconds for one in known if one.cpu_seconds is not None]
    peaks = [one.peak_memory_bytes for one in known if one.peak_memory_bytes is not None]
    return JobCosts(
        sum(one.slot_seconds or 0.0 for one in known),
        sum(cpu) if cpu else None,
        max(peaks, default=None),
        len(known) - len(cpu),
    )


def compute_cpu_seconds(stages: Iterable[StageFigures]) -> float | None:
    """Returns the CPU time of a job's bundles; None if a stage's CPU time is unknown."""
    costs = compute_job_costs(stages)
    return None if costs is None or costs.unmeasured_stages else costs.cpu_seconds
