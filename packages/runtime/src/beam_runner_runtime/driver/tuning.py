"""How a job is cut into bundles and shards: by its plan, unless its options say it."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.policy import DefaultPolicy, DefaultSectionPolicy, SectionPolicy
from beam_runner_engine.scheduler.specs import Limits, Pauses
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.job_options import Bulk, JobWishes
from beam_runner_runtime.tuning import TUNING

_LEAST_SHARDS_PER_CORE = 2
_MOST_SHARDS_PER_CORE = 8
_SHARDS_ENOUGH = 64
_JOINT_BYTES_IN_TURNS = 8 << 20
_STREAMING_CHECKPOINT_MS = 500
_LARGE_BYTES = 256 << 20
"""From about here on two machines are done sooner by Spark's shuffle than by a store: see ADR 0021."""
_MOST_EXCHANGES = 4
_MOST_EXCHANGES_OF_ALL = 100
"""Where what a section ends with has no place to go, it had better be the whole job."""


_STREAM_PAUSES = Pauses(1_000, 120_000)
"""Short enough that a stream catches up soon after user code is well again, and long enough that a bundle which
fails for days costs next to nothing."""
_LEAST_OUTSIDE_ATTEMPTS = 4


@attrs.frozen
class RetrySettings:
    """How often a server has failed bundles run again.

    Attributes:
        task_attempts: most attempts at a bundle of a bounded job whose user code raises.
        stream_attempts: most attempts at a bundle of a stream; None is without limit.
        outage_seconds: how long a bounded job waits for an unavailable neighbour; None is without limit.
    """

    task_attempts: int = 1
    stream_attempts: int | None = None
    outage_seconds: float | None = 600.0


@attrs.frozen
class JobTuning:
    """How a job is cut.

    Attributes:
        shards: how many key shards its stages have.
        limits: of bundles.
        policy: of splits.
        section_policy: whether sections are run as Spark's own jobs; None if the job has none.
    """

    shards: int
    limits: Limits
    policy: DefaultPolicy
    section_policy: SectionPolicy | None = None


def tuning_of(
    plan: JobPlan,
    cores: int,
    retries: RetrySettings,
    wishes: JobWishes,
    bulk: Bulk = Bulk.AUTO,
    *,
    shares_data: bool = True,
    on_cluster: bool = False,
) -> JobTuning:
    """How a new job is cut.

    Args:
        plan: the job's.
        cores: of the whole cluster.
        retries: how often the server has failed bundles run again.
        wishes: of the job, which win.
        bulk: whether the server has bounded work carried by Spark's own jobs.
        shares_data: whether there is a place for data between stages that all bundles reach.
        on_cluster: whether bundles run on other machines than the server.
    """
    limits = Limits(
        parallelism=cores * TUNING.lanes_per_core,
        section_exchanges=_MOST_EXCHANGES if shares_data else _MOST_EXCHANGES_OF_ALL,
    )
    limits = with_retries(limits, plan, retries, wishes)
    policy = DefaultPolicy()
    if plan.streaming:
        policy = DefaultPolicy(checkpoint_after=_STREAMING_CHECKPOINT_MS, halves_restrictions=False)
    elif plan.takes_turns:
        # An SDK's bundle costs up to 0.2 s at its end, where a sampling thread is waited for.
        policy = DefaultPolicy(spreads=False)
        limits = attrs.evolve(limits, joint_bytes=_JOINT_BYTES_IN_TURNS)
    if wishes.checkpoint_interval is not None:
        policy = attrs.evolve(policy, checkpoint_after=wishes.checkpoint_interval)
    few = plan.streaming or plan.one_interpreter
    shards = wishes.key_shards or shards_for(cores, few=few)
    sections = _section_policy(wishes.bulk or bulk, shares_data=shares_data, on_cluster=on_cluster)
    return JobTuning(shards, limits, policy, sections)


def with_retries(
    limits: Limits, plan: JobPlan, retries: RetrySettings, wishes: JobWishes
) -> Limits:
    """Returns limits with those for failed bundles.

    An endless job is patient: it waits for what may become right, since nobody could run it again
    from its beginning. All others end soon, so that whoever waits for the end learns of the failure.
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


def _section_policy(bulk: Bulk, *, shares_data: bool, on_cluster: bool) -> SectionPolicy | None:
    """None where no stage is to wait for a section."""
    if bulk is Bulk.ALWAYS or (bulk is Bulk.AUTO and not shares_data):
        return DefaultSectionPolicy()
    if bulk is Bulk.AUTO and on_cluster:
        return DefaultSectionPolicy(_LARGE_BYTES, growing=True)
    return None


def shards_for(cores: int, *, few: bool) -> int:
    """How many key shards the stages of a job have.

    Many small shards are grouped faster than few large ones, which do not fit into caches, or not
    into memory; and where they are very small, they share a bundle. A ``few`` are enough for a
    stream, where each shard has bundles of its own, and for one interpreter, to which each bundle is
    a cost. On many cores there are many in any case.
    """
    least = cores * _LEAST_SHARDS_PER_CORE
    most = least if few else min(cores * _MOST_SHARDS_PER_CORE, _SHARDS_ENOUGH)
    return max(2, least, most)
