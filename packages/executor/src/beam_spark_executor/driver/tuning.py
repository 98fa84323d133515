"""How a job is cut into bundles and shards: by its plan, unless its options say it."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler import DefaultPolicy, Limits

from beam_spark_executor.job_options import JobWishes
from beam_spark_executor.plan import JobPlan

LANES_PER_CORE = 4

_LEAST_SHARDS_PER_CORE = 2
_MOST_SHARDS_PER_CORE = 8
_SHARDS_ENOUGH = 64
_JOINT_BYTES_IN_TURNS = 8 << 20
_STREAMING_CHECKPOINT_MS = 500


@attrs.frozen
class Tuning:
    """How a job is cut.

    Attributes:
        shards: how many key shards its stages have.
        limits: of bundles.
        policy: of splits.
    """

    shards: int
    limits: Limits
    policy: DefaultPolicy


def tuning_of(plan: JobPlan, cores: int, task_attempts: int, wishes: JobWishes) -> Tuning:
    """How a new job is cut.

    Args:
        plan: the job's.
        cores: of the whole cluster.
        task_attempts: how often the server has a bundle tried in which user code raises.
        wishes: of the job, which win.
    """
    limits = Limits(
        parallelism=cores * LANES_PER_CORE, user_attempts=wishes.task_attempts or task_attempts
    )
    policy = DefaultPolicy()
    if plan.streaming:
        policy = DefaultPolicy(checkpoint_after=_STREAMING_CHECKPOINT_MS)
    elif plan.takes_turns:
        # An SDK's bundle costs up to 0.2 s at its end, where a sampling thread is waited for.
        policy = DefaultPolicy(spreads=False)
        limits = attrs.evolve(limits, joint_bytes=_JOINT_BYTES_IN_TURNS)
    if wishes.checkpoint_interval is not None:
        policy = attrs.evolve(policy, checkpoint_after=wishes.checkpoint_interval)
    few = plan.streaming or plan.one_interpreter
    return Tuning(wishes.key_shards or shards_for(cores, few=few), limits, policy)


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
