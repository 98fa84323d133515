"""What the tasks of a section tell the server: each adds its own to what it has heard from those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.totals import Totals

from beam_runner_runtime.channel.attempts import BundleBroke, SectionRefusal


@attrs.frozen
class SectionOutputs:
    """What one task has written for readers outside of the section.

    Attributes:
        stage: the place in the section of the stage that wrote it.
        source: the number of the task.
        outputs: in order.
    """

    stage: int
    source: int
    outputs: tuple[Output, ...]


@attrs.frozen
class Seen:
    """So many tasks of a level have read the same input.

    Attributes:
        level: theirs.
        digest: of that input, as those who sent it told.
        tasks: how many.
    """

    level: int
    digest: int
    tasks: int


@attrs.frozen
class SectionReply:
    """What some tasks of a section have to say.

    Attributes:
        tasks: how many of each level.
        seen: what they have read.
        outputs: what they have written for others.
        metrics: of all their bundles.
        end: why the section must end without a commit; None if it need not.
    """

    tasks: tuple[tuple[int, int], ...] = ()
    seen: tuple[Seen, ...] = ()
    outputs: tuple[SectionOutputs, ...] = ()
    metrics: tuple[MonitoringInfo, ...] = ()
    end: BundleBroke | SectionRefusal | None = None


def merge_replies(replies: Iterable[SectionReply]) -> SectionReply:
    """What all of them say; of several ends one that user code has caused."""
    tasks: Counter[int] = Counter()
    seen: Counter[tuple[int, int]] = Counter()
    outputs: list[SectionOutputs] = []
    metrics = Totals()
    ends: list[BundleBroke | SectionRefusal] = []
    for reply in replies:
        tasks.update(dict(reply.tasks))
        seen.update({(one.level, one.digest): one.tasks for one in reply.seen})
        outputs += reply.outputs
        metrics.add(reply.metrics)
        ends += () if reply.end is None else (reply.end,)
    ends.sort(key=lambda end: not isinstance(end, BundleBroke))
    outputs.sort(key=lambda one: (one.stage, one.source))
    return SectionReply(
        tuple(sorted(tasks.items())),
        tuple(Seen(*place, count) for place, count in sorted(seen.items())),
        tuple(outputs),
        metrics.infos(),
        ends[0] if ends else None,
    )
