"""Defaults for the division of a job into bundles and shards, derived from the plan and the job's options."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.policy import DefaultPolicy, DefaultSectionPolicy, SectionPolicy
from beam_runner_engine.scheduler.specs import Limits, Pauses
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.job_options import BulkMode, RunnerOptions
from beam_runner_runtime.tuning import TUNING

_LEAST_SHARDS_PER_CORE = 2
_MOST_SHARDS_PER_CORE = 8
_SHARDS_ENOUGH = 64
_JOINT_BYTES_IN_TURNS = 8 << 20
_STREAMING_CHECKPOINT_MS = 500
_LARGE_BYTES = 256 << 20
"""Approximate size above which Spark's shuffle outperforms a store on a two-machine cluster, see ADR 0021."""
_MOST_EXCHANGES = 4
_MOST_EXCHANGES_OF_ALL = 100
"""Limit if bundles share no data store. A section can't write its output anywhere, so it should cover
the complete job.
"""


_STREAM_PAUSES = Pauses(1_000, 120_000)
"""Pauses between retries of a stream. A short pause lets the stream recover soon after user code works
again. A long pause limits the cost of a bundle that fails for days.
"""
_LEAST_OUTSIDE_ATTEMPTS = 4


@attrs.frozen
class RetrySettings:
    """Retry limits of a server for failed bundles.

    Attributes:
        task_attempts: maximum number of attempts at a bundle of a bounded job if user code raises
            an exception.
        stream_attempts: maximum number of attempts at a bundle of a stream; None is without limit.
        outage_seconds: maximum wait in seconds of a bounded job for an external system; None is
            without limit.
    """

    task_attempts: int = 1
    stream_attempts: int | None = None
    outage_seconds: float | None = 600.0


@attrs.frozen
class JobTuning:
    """Limits and policies by which the scheduler divides a job into bundles and shards.

    Attributes:
        shards: number of key shards of each stage.
        limits: limits of the scheduler.
        policy: policy that splits work into bundles.
        section_policy: policy that selects sections to run as Spark jobs; None if the job has no
            sections.
    """

    shards: int
    limits: Limits
    policy: DefaultPolicy
    section_policy: SectionPolicy | None = None


def choose_job_tuning(
    plan: JobPlan,
    cores: int,
    retries: RetrySettings,
    wishes: RunnerOptions,
    bulk: BulkMode = BulkMode.AUTO,
    *,
    shares_data: bool = True,
    on_cluster: bool = False,
) -> JobTuning:
    """Returns the limits and policies for a new job.

    Args:
        plan: plan of the job.
        cores: number of cores of the cluster.
        retries: retry limits of the server.
        wishes: options of the job, which override the defaults.
        bulk: whether the server runs bounded work as Spark jobs.
        shares_data: whether all bundles can reach a common data store.
        on_cluster: whether bundles run on machines other than the server.
    """
    limits = Limits(
        parallelism=cores * TUNING.lanes_per_core,
        section_exchanges=_MOST_EXCHANGES if shares_data else _MOST_EXCHANGES_OF_ALL,
    )
    limits = set_retry_limits(limits, plan, retries, wishes)
    policy = DefaultPolicy()
    if plan.streaming:
        policy = DefaultPolicy(checkpoint_after=_STREAMING_CHECKPOINT_MS, halves_restrictions=False)
    elif plan.shares_one_interpreter:
        # Don't spread work over small bundles if they share one interpreter: the end of each bundle
        # costs up to 0.2 s, because the SDK harness joins its sampling thread.
        policy = DefaultPolicy(spreads=False)
        limits = attrs.evolve(limits, joint_bytes=_JOINT_BYTES_IN_TURNS)
    if wishes.checkpoint_interval is not None:
        policy = attrs.evolve(policy, checkpoint_after=wishes.checkpoint_interval)
    few = plan.streaming or plan.one_interpreter
    shards = wishes.key_shards or count_key_shards(cores, few=few)
    sections = _select_section_policy(
        wishes.bulk or bulk, shares_data=shares_data, on_cluster=on_cluster
    )
    return JobTuning(shards, limits, policy, sections)


def set_retry_limits(
    limits: Limits, plan: JobPlan, retries: RetrySettings, wishes: RunnerOptions
) -> Limits:
    """Returns `limits` with retry limits for failed bundles.

    A stream waits until a failure is repaired, because a user can't rerun it from its beginning. A
    bounded job fails soon, so that a waiting client learns of the failure.
    """
    if not plan.is_endless:
        seconds = retries.outage_seconds
        return attrs.evolve(
            limits,
            user_attempts=wishes.task_attempts or retries.task_attempts,
            outage_limit=None if seconds is None else max(1, int(seconds * 1000)),
        )
    attempts = wishes.task_attempts or retries.stream_attempts
    return attrs.evolve(
        limits,
        user_attempts=attempts,
        outside_attempts=attempts and max(attempts, _LEAST_OUTSIDE_ATTEMPTS),
        pauses=_STREAM_PAUSES,
        outage_limit=None,
    )


def _select_section_policy(
    bulk: BulkMode, *, shares_data: bool, on_cluster: bool
) -> SectionPolicy | None:
    """Returns the policy that selects sections, or None if no stage should wait for a section."""
    if bulk is BulkMode.ALWAYS or (bulk is BulkMode.AUTO and not shares_data):
        return DefaultSectionPolicy()
    if bulk is BulkMode.AUTO and on_cluster:
        return DefaultSectionPolicy(_LARGE_BYTES, growing=True)
    return None


def count_key_shards(cores: int, *, few: bool) -> int:
    """Returns the number of key shards of a job's stages.

    Grouping is faster with many small shards, because a large shard exceeds the CPU caches or the
    memory. Very small shards share a bundle. ``few`` selects the minimum number. The minimum is
    enough for a stream, in which each shard has separate bundles. The minimum is also enough for a
    single interpreter, in which each bundle adds a cost. With many cores, the number is large
    anyway.
    """
    least = cores * _LEAST_SHARDS_PER_CORE
    most = least if few else min(cores * _MOST_SHARDS_PER_CORE, _SHARDS_ENOUGH)
    return max(2, least, most)
