"""Reports about a running section: the progress of its tasks, and the result of the attempt."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply

SectionEnd: TypeAlias = BundleReply | BundleFailure | SectionRefusal
"""Result of an attempt at a section (stages that run as one Spark job)."""


@attrs.frozen
class TaskCounts:
    """Numbers of finished, running and known Spark tasks of a job's sections (Spark jobs of several
    stages).
    """

    done: int = 0
    running: int = 0
    known: int = 0
