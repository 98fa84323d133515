"""Replies of a section's Spark tasks to the server. Each task merges its reply with the replies
that it received from tasks of earlier levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.totals import Totals

from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal


@attrs.frozen
class SectionOutputs:
    """Outputs of one Spark task for stages outside of the section (the Spark job).

    Attributes:
        stage: index of the writing stage in the section.
        source: index of the Spark task that wrote the outputs.
        outputs: outputs of the stage, in order.
    """

    stage: int
    source: int
    outputs: tuple[Output, ...]


@attrs.frozen
class InputDigestCount:
    """Digest of the input of a level (Spark stage), with the number of tasks that read exactly this
    input. Different digests show that tasks read different input.

    Attributes:
        digest: digest of the input, from the closing records of the sending tasks.
    """

    level: int
    digest: int
    tasks: int


@attrs.frozen
class SectionReply:
    """Reply to the server from one or several Spark tasks of a section.

    Attributes:
        tasks: pairs of level and number of tasks.
        seen: digests of the tasks' input.
        outputs: outputs for readers outside of the section.
        metrics: metrics of all bundles.
        end: reason to end the section without a commit, or None.
    """

    tasks: tuple[tuple[int, int], ...] = ()
    seen: tuple[InputDigestCount, ...] = ()
    outputs: tuple[SectionOutputs, ...] = ()
    metrics: tuple[MonitoringInfo, ...] = ()
    end: BundleFailure | SectionRefusal | None = None


def merge_section_replies(replies: Iterable[SectionReply]) -> SectionReply:
    """Merges the replies of several tasks. If several tasks end the section, a failed bundle has
    priority over a refusal.
    """
    tasks: Counter[int] = Counter()
    seen: Counter[tuple[int, int]] = Counter()
    outputs: list[SectionOutputs] = []
    metrics = Totals()
    ends: list[BundleFailure | SectionRefusal] = []
    for reply in replies:
        tasks.update(dict(reply.tasks))
        seen.update({(one.level, one.digest): one.tasks for one in reply.seen})
        outputs += reply.outputs
        metrics.add(reply.metrics)
        ends += () if reply.end is None else (reply.end,)
    ends.sort(key=lambda end: not isinstance(end, BundleFailure))
    outputs.sort(key=lambda one: (one.stage, one.source))
    return SectionReply(
        tuple(sorted(tasks.items())),
        tuple(InputDigestCount(*place, count) for place, count in sorted(seen.items())),
        tuple(outputs),
        metrics.infos(),
        ends[0] if ends else None,
    )
