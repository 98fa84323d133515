"""Data about a job from which possible problems are found, and the record of one problem."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from urllib.parse import quote

import attrs
from beam_runner_jobservices.error_log import FailureGroup
from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_model.waits import WaitKind

from beam_runner_web.watch.snapshots import JobSnapshot, MetricSample
from beam_runner_web.watch.states import StepState

_LATELY_SECONDS = 10.0
GROUP_BY_KEY = "beam:transform:group_by_key:v1"
_MOST_NAMES = 3


class CauseSeverity(enum.IntEnum):
    """The severity of a problem of a job."""

    BAD = 0
    WARN = 1
    GOOD = 2
    NOTE = 3


class CauseKind(enum.StrEnum):
    """Kind of a job's problem. A problem that is a wait has a `WaitKind` instead."""

    WELL = "well"
    IDLE = "idle"
    SERVER_AWAY = "server_away"
    FAILED = "failed"
    ERROR = "error"
    DRAIN = "drain"
    FAILED_BUNDLE = "failed_bundle"
    RETRIED = "retried"
    QUARANTINED = "quarantined"
    STANDING_BUNDLE = "standing_bundle"
    LONG_BUNDLE = "long_bundle"
    SMALL_BUNDLES = "small_bundles"
    IDLE_SLOTS = "idle_slots"
    BACKLOG = "backlog"
    LATE = "late"
    DROPPED = "dropped"
    GATHERS = "gathers"
    HOT_STEP = "hot_step"
    WARNING = "warning"


@attrs.frozen
class Cause:
    """A sentence about a possible problem of a job, with a link to details.

    Attributes:
        kind: the kind of the problem, for programs.
        text: the sentence.
        page: the page of the job with details, and an anchor on it.
        step: the id of the step that the sentence is about.
        more: a second sentence.
    """

    kind: CauseKind | WaitKind
    weight: CauseSeverity
    text: str
    page: str = ""
    step: str = ""
    more: str = ""


@attrs.frozen(slots=False)
class JobFacts:
    """Data about a job, with look-up methods for the rules that find possible problems."""

    snapshot: JobSnapshot
    failures: Sequence[FailureGroup]
    states: dict[str, StepState]

    def get_stage_label(self, stage: StageFigures) -> str:
        """Returns a name for a stage: the name of the step that takes most of its time."""
        return self.get_slowest_step_label(stage.steps) or stage.name

    def find_main_step(self, stage: StageFigures) -> str:
        """Returns the step that takes most of a stage's time; the last step if the times are
        unknown.
        """
        return self.find_slowest_step(stage.steps)

    def make_card_link(self, stage: StageFigures) -> str:
        """Returns the link to the stage's card on the page of stages."""
        return f"stages#{quote(stage.anchor, safe='')}"

    def get_slowest_step_label(self, steps: Sequence[str]) -> str:
        """Returns the name of the slowest of these steps. Without times, returns the names of all steps."""
        if any(self.get_wall_time(key) for key in steps):
            return self.snapshot.tree.steps[self.find_slowest_step(steps)].name
        return self.describe_any_step(steps)

    def describe_any_step(self, steps: Sequence[str]) -> str:
        """Returns a phrase for an unknown step among these steps, such as "one of the steps A and B"."""
        tree = self.snapshot.tree
        if len(steps) == 1:
            return tree.steps[steps[0]].name
        outer = [(key, *tree.list_ancestors(key))[-1] for key in steps]
        found = [tree.steps[key].name for key in dict.fromkeys(outer)]
        if len(found) > _MOST_NAMES:
            return f"A step from {found[0]} to {found[-1]}"
        return " or ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))

    def find_slowest_step(self, steps: Sequence[str]) -> str:
        """Returns the step that took the most time recently, or in total without recent times; empty if unknown."""
        figures = self.snapshot.figures.steps
        known = [(at, key) for at, key in enumerate(steps) if key in figures]
        if not known:
            return ""
        return max(
            known,
            key=lambda one: (
                self._compute_recent_wall_time(one[1]),
                self.get_wall_time(one[1]),
                one[0],
            ),
        )[1]

    def find_grouping(self, stage: StageFigures) -> str:
        """Returns the GroupByKey that the stage's bundles execute; empty if the stage's input isn't grouped."""
        tree = self.snapshot.tree
        inputs = tree.steps[stage.steps[0]].description.inputs.values() if stage.steps else ()
        makers = [tree.producers[one] for one in inputs if one in tree.producers]
        groupings = (key for key in makers if tree.steps[key].description.urn == GROUP_BY_KEY)
        return next((key for key in groupings if key not in stage.steps), "")

    def list_upstream_stages(self, stage: StageFigures) -> list[StageFigures]:
        """Returns the stages whose output a stage reads, directly or through steps (such as
        GroupByKeys) that aren't part of a stage.
        """
        tree = self.snapshot.tree
        pending, seen, found = list(stage.steps), set(stage.steps), dict[str, StageFigures]()
        while pending:
            described = tree.steps[pending.pop()].description
            for tag, pcollection in described.inputs.items():
                maker = tree.producers.get(pcollection, "")
                if tag in described.side_inputs or maker in seen or not maker:
                    continue
                seen.add(maker)
                found.update((one.id, one) for one in self._stages_by_step.get(maker, ()))
                if maker not in self._stages_by_step:
                    pending.append(maker)
        return list(found.values())

    @cached_property
    def _stages_by_step(self) -> Mapping[str, Sequence[StageFigures]]:
        """The stages of each step. A Flatten belongs to all stages that write to it."""
        found: dict[str, list[StageFigures]] = defaultdict(list)
        for one in self.snapshot.figures.stages:
            for key in one.steps:
                found[key].append(one)
        return dict(found)

    def get_wall_time(self, key: str, at: MetricSample | None = None) -> int:
        """Returns the active time of a step in ms, up to the sample `at`, or up to now without a sample."""
        steps = (at or self.snapshot).figures.steps
        return (steps[key].wall or 0) if key in steps else 0

    def _compute_recent_wall_time(self, key: str) -> int:
        """Returns the active time of a step in ms over the last 10 s; 0 if no sample is old enough."""
        before = self.find_earlier_sample(_LATELY_SECONDS)
        return (
            0
            if before is None
            else max(0, self.get_wall_time(key) - self.get_wall_time(key, before))
        )

    def find_earlier_sample(self, seconds: float) -> MetricSample | None:
        """Returns the latest sample that is at least `seconds` old; None if no sample is old enough."""
        snapshot = self.snapshot
        return next(
            (s for s in reversed(snapshot.samples) if s.time <= snapshot.taken - seconds), None
        )
