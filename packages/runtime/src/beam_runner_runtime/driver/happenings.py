"""What can happen to a running job, as its own thread hears of it."""

from __future__ import annotations

import attrs

from beam_runner_runtime.channel.attempts import BundleBroke
from beam_runner_runtime.channel.messages import FromWorker
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd


@attrs.frozen
class Said:
    """A worker process has said something."""

    link: WorkerLink
    message: FromWorker


@attrs.frozen
class Lost:
    """A worker process has ended."""

    link: WorkerLink


@attrs.frozen
class LaneEnded:
    """A lane has ended, with an error or without."""

    number: int
    error: str


@attrs.frozen
class SectionEnded:
    """An attempt at a section has come to its end."""

    end: SectionEnd


@attrs.frozen
class CancelAsked:
    """Somebody wants the job to end now."""


@attrs.frozen
class DrainAsked:
    """Somebody wants the job's sources to end."""


@attrs.frozen
class Suspend:
    """The server stops; the job is to go on under another one."""


@attrs.frozen
class Woken:
    """It may be the job's turn to begin."""


Item = Said | Lost | LaneEnded | SectionEnded | CancelAsked | DrainAsked | Suspend | Woken


def is_loss(item: Item) -> bool:
    """Whether something ended that the placement keeps alive."""
    if isinstance(item, SectionEnded):
        return isinstance(item.end, BundleBroke) and item.end.failure is None
    return isinstance(item, Lost) or (isinstance(item, LaneEnded) and item.error != "")
