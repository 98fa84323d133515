"""What comes of an attempt at a section, and how far its tasks are: what whoever runs it tells."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_runtime.channel.attempts import BundleBroke, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply

SectionEnd: TypeAlias = BundleReply | BundleBroke | SectionRefusal
"""What comes of an attempt at a section."""


@attrs.frozen
class Tasks:
    """How many tasks are done, how many run, and of how many it is known yet."""

    done: int = 0
    running: int = 0
    known: int = 0
