"""Sizes of bundles, number of key shards (hash partitions of keys), and retry limits of a job,
derived from the job's plan and options.
"""

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
"""Approximate data size above which Spark's shuffle is faster than an object store or shared
folder, measured on two machines (ADR 0017).
"""
_MOST_EXCHANGES = 4
_MOST_EXCHANGES_OF_ALL = 100
"""Size limit of a section if the machines share no data store. A section (stages that run as one
Spark job) can't store its output then, so it should contain the complete job.
"""


_STREAM_PAUSES = Pauses(1_000, 120_000)
"""Pauses between attempts at a failing bundle of a stream. The first pauses are short, so that the
stream soon recovers. The last pauses are long, because a bundle can fail for days.
"""
_LEAST_OUTSIDE_ATTEMPTS = 4
_LEAST_BUNDLES_PER_STAGE = 64
"""Open bundles of a stage without keys on a small cluster. More of them than lanes hide the time until
a lane gets its next bundle.
"""


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
    """Limits and policies by which the scheduler divides a job into bundles and key shards (hash
    partitions of keys).

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
    parallelism = cores * TUNING.lanes_per_core
    limits = Limits(
        parallelism=parallelism,
        bundles_per_stage=max(_LEAST_BUNDLES_PER_STAGE, parallelism),
        section_exchanges=_MOST_EXCHANGES if shares_data else _MOST_EXCHANGES_OF_ALL,
    )
    limits = set_retry_limits(limits, plan, retries, wishes)
    policy = DefaultPolicy()
    if plan.streaming:
        policy = DefaultPolicy(checkpoint_after=_STREAMING_CHECKPOINT_MS, halves_restrictions=False)
    elif plan.shares_one_interpreter:
        # If bundles share one interpreter, don't divide work into small bundles: the end of each
        # bundle takes up to 0.2 s, because the SDK harness joins its sampling thread.
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

    A stream retries without limit, because a user can't rerun it from its beginning. A bounded job
    fails after a few attempts, so that the waiting user sees the failure.
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
    """Returns the policy that selects stages to run together as one Spark job (a section), or None
    if no stages should.
    """
    if bulk is BulkMode.ALWAYS or (bulk is BulkMode.AUTO and not shares_data):
        return DefaultSectionPolicy()
    if bulk is BulkMode.AUTO and on_cluster:
        return DefaultSectionPolicy(_LARGE_BYTES, growing=True)
    return None


def count_key_shards(cores: int, *, few: bool) -> int:
    """Returns the number of key shards (hash partitions of keys) that each stage of the job has.

    Grouping is faster with many small shards, because a large shard exceeds the CPU caches or the
    memory. Very small shards share a bundle. ``few`` selects the minimum number. Use the minimum
    for a stream, in which each shard needs separate bundles, and for a single interpreter, in which
    each bundle adds overhead.
    """
    least = cores * _LEAST_SHARDS_PER_CORE
    most = least if few else min(cores * _MOST_SHARDS_PER_CORE, _SHARDS_ENOUGH)
    return max(2, least, most)
