"""What the sentences about a job are made of, and what a sentence is."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from urllib.parse import quote

import attrs
from beam_runner_jobservices.error_log import FailureGroup
from beam_runner_model.waits import WaitKind

from .figures import StageFigures
from .states import StepState
from .watching import Sample, Snapshot

_LATELY_SECONDS = 10.0
GROUP_BY_KEY = "beam:transform:group_by_key:v1"
_MOST_NAMES = 3


class Weight(enum.IntEnum):
    """How bad it is."""

    BAD = 0
    WARN = 1
    GOOD = 2
    NOTE = 3


class CauseKind(enum.StrEnum):
    """What a sentence about a job is about, if it is not a `WaitKind`."""

    WELL = "well"
    IDLE = "idle"
    SERVER_AWAY = "server_away"
    FAILED = "failed"
    ERROR = "error"
    DRAIN = "drain"
    FAILED_BUNDLE = "failed_bundle"
    RETRIED = "retried"
    STANDING_BUNDLE = "standing_bundle"
    LONG_BUNDLE = "long_bundle"
    SMALL_BUNDLES = "small_bundles"
    BACKLOG = "backlog"
    LATE = "late"
    DROPPED = "dropped"
    GATHERS = "gathers"
    HOT_STEP = "hot_step"
    WARNING = "warning"


@attrs.frozen
class Cause:
    """A sentence, and where to read more.

    Attributes:
        kind: what it is about, for programs.
        weight: how bad it is.
        text: the sentence.
        page: one of the pages of the job, and a place on it.
        step: the id of the step that it is about.
        more: a second sentence.
    """

    kind: CauseKind | WaitKind
    weight: Weight
    text: str
    page: str = ""
    step: str = ""
    more: str = ""


@attrs.frozen(slots=False)
class Facts:
    """What the sentences are made of."""

    snapshot: Snapshot
    failures: Sequence[FailureGroup]
    states: dict[str, StepState]

    def name(self, stage: StageFigures) -> str:
        """A stage by the step that people would look at."""
        return self.names(stage.steps) or stage.name

    def step(self, stage: StageFigures) -> str:
        """The step in a stage that takes most of its time; the last one where none has told of time."""
        return self.hottest(stage.steps)

    def card(self, stage: StageFigures) -> str:
        """Where more is told of a stage: its place on the page of stages."""
        return f"stages#{quote(stage.anchor, safe='')}"

    def names(self, steps: Sequence[str]) -> str:
        """The step among these that takes most of the time; where none has told of time, all it may be."""
        if any(self.wall(key) for key in steps):
            return self.snapshot.tree.steps[self.hottest(steps)].name
        return self.any_of(steps)

    def any_of(self, steps: Sequence[str]) -> str:
        """These steps, one of which is meant: by the outermost composites that they are in."""
        tree = self.snapshot.tree
        if len(steps) == 1:
            return tree.steps[steps[0]].name
        outer = [(key, *tree.way_to(key))[-1] for key in steps]
        found = [tree.steps[key].name for key in dict.fromkeys(outer)]
        if len(found) > _MOST_NAMES:
            return f"A step from {found[0]} to {found[-1]}"
        return " or ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))

    def hottest(self, steps: Sequence[str]) -> str:
        """Which of these steps takes most time, lately if that is known; empty where none is known."""
        figures = self.snapshot.figures.steps
        known = [(at, key) for at, key in enumerate(steps) if key in figures]
        if not known:
            return ""
        return max(known, key=lambda one: (self._lately(one[1]), self.wall(one[1]), one[0]))[1]

    def grouping(self, stage: StageFigures) -> str:
        """The grouping by key before a stage, which its bundles do, too; empty where there is none."""
        tree = self.snapshot.tree
        inputs = tree.steps[stage.steps[0]].description.inputs.values() if stage.steps else ()
        makers = [tree.producers[one] for one in inputs if one in tree.producers]
        groupings = (key for key in makers if tree.steps[key].description.urn == GROUP_BY_KEY)
        return next((key for key in groupings if key not in stage.steps), "")

    def before_stage(self, stage: StageFigures) -> list[StageFigures]:
        """The stages that give to a stage, past groupings and the like, which no stage runs."""
        tree = self.snapshot.tree
        pending, seen, found = list(stage.steps), set(stage.steps), dict[str, StageFigures]()
        while pending:
            described = tree.steps[pending.pop()].description
            for tag, pcollection in described.inputs.items():
                maker = tree.producers.get(pcollection, "")
                if tag in described.side_inputs or maker in seen or not maker:
                    continue
                seen.add(maker)
                found.update((one.id, one) for one in self._stages_of.get(maker, ()))
                if maker not in self._stages_of:
                    pending.append(maker)
        return list(found.values())

    @cached_property
    def _stages_of(self) -> Mapping[str, Sequence[StageFigures]]:
        """By step the stages that it is in: a flatten is in all that give to it."""
        found: dict[str, list[StageFigures]] = defaultdict(list)
        for one in self.snapshot.figures.stages:
            for key in one.steps:
                found[key].append(one)
        return dict(found)

    def wall(self, key: str, at: Sample | None = None) -> int:
        """For how many ms a step had been at work, then or by now."""
        steps = (at or self.snapshot).figures.steps
        return (steps[key].wall or 0) if key in steps else 0

    def _lately(self, key: str) -> int:
        """For how many ms a step was at work lately; 0 where nobody has looked for long enough."""
        before = self.before(_LATELY_SECONDS)
        return 0 if before is None else max(0, self.wall(key) - self.wall(key, before))

    def before(self, seconds: float) -> Sample | None:
        """The job as it was so long ago, or somewhat longer; None where nobody has looked then."""
        snapshot = self.snapshot
        return next(
            (s for s in reversed(snapshot.samples) if s.time <= snapshot.taken - seconds), None
        )
