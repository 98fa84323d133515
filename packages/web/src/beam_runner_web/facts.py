"""What the sentences about a job are made of, and what a sentence is."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs
from beam_runner_jobservices import FailureGroup

from .figures import StageFigures
from .states import StepState
from .watching import Snapshot


class Weight(enum.IntEnum):
    """How bad it is."""

    BAD = 0
    WARN = 1
    GOOD = 2
    NOTE = 3


@attrs.frozen
class Cause:
    """A sentence, and where to read more: `page` is one of the job's, `step` what it is about."""

    weight: Weight
    text: str
    page: str = ""
    step: str = ""
    more: str = ""


@attrs.frozen
class Facts:
    """What the sentences are made of."""

    snapshot: Snapshot
    failures: Sequence[FailureGroup]
    states: dict[str, StepState]

    def name(self, stage: StageFigures) -> str:
        """A stage by the step that people would look at."""
        step = self.step(stage)
        return self.snapshot.tree.steps[step].name if step else stage.name

    def step(self, stage: StageFigures) -> str:
        """The step in a stage that takes most of its time; the last one where none has told of time."""
        return self.hottest(stage.steps)

    def hottest(self, steps: Sequence[str]) -> str:
        """Which of these steps has taken most time; empty where none is known."""
        walls = [
            (self.snapshot.figures.steps[key].wall or 0, at, key)
            for at, key in enumerate(steps)
            if key in self.snapshot.figures.steps
        ]
        return max(walls)[2] if walls else ""
