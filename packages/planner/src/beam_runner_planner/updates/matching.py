"""Matching of the stages and collections of two plans by identity (kind and step name)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

import attrs
from beam_runner_model.updates import JobContents, StoredStageData

from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.names import StepMatch
from beam_runner_planner.updates.views import StageView, list_stage_views, list_steps

_OUTPUT = re.compile(r"(?P<kind>(?:\w+:)?stored):(?P<step>.*)\|(?P<tag>[^|]*)", re.DOTALL)


@attrs.frozen(eq=False, slots=False)
class MatchedPlans:
    """The plans of a running job and of the new pipeline, with the parts that correspond.

    Attributes:
        old: the stages of the running job by identity.
        new: the stages of the new pipeline by identity.
        names: the correspondence of the steps.
        contents: the data of the old stages by identity.
        stages: by old stage, the new stage that continues it.
        collections: by old collection, the new collection that continues it.
        writers: by collection of the new plan, the stages that write it.
    """

    old: Mapping[str, StageView]
    new: Mapping[str, StageView]
    names: StepMatch
    contents: Mapping[str, StoredStageData]
    stages: Mapping[str, str]
    collections: Mapping[str, str]
    writers: Mapping[str, tuple[str, ...]]

    def get_stage_data(self, old: str) -> StoredStageData:
        """Returns the data of an old stage."""
        return self.contents.get(old, StoredStageData())

    @functools.cached_property
    def continued_stages(self) -> dict[str, str]:
        """The old stage that each new stage continues, by identity of the new stage."""
        return {new: old for old, new in self.stages.items()}

    @functools.cached_property
    def stages_without_input(self) -> frozenset[str]:
        """The new stages that get no more input, because the stage itself or all upstream stages
        are complete.
        """
        found: set[str] = set()
        for identity, view in self.new.items():
            if identity in self.continued_stages:
                is_ended = self.get_stage_data(self.continued_stages[identity]).complete
            else:
                before = self.list_input_writers(view)
                is_ended = bool(before) and found.issuperset(before)
            if is_ended:
                found.add(identity)
        return frozenset(found)

    def list_input_writers(self, view: StageView) -> tuple[str, ...]:
        """Returns the stages that write the main input of a stage of the new plan."""
        return () if view.input_identity is None else self.writers.get(view.input_identity, ())


def match_plans(
    old: JobPlan, new: JobPlan, mapping: Mapping[str, str], contents: JobContents
) -> MatchedPlans:
    """Returns two plans with the parts that correspond.

    Args:
        old: the plan of the running job.
        new: the plan of the new pipeline.
        mapping: prefixes of step names, as in `UpdateInstructions`.
        contents: the data of the running job.
    """
    old_views, new_views = list_stage_views(old), list_stage_views(new)
    names = StepMatch({*list_steps(old_views)}, {*list_steps(new_views)}, mapping)
    old_buffers, new_buffers = (
        {buffer.identity for buffer in plan.buffers.values()} for plan in (old, new)
    )
    return MatchedPlans(
        old_views,
        new_views,
        names,
        {
            stage.identity: contents[stage.stage_id]
            for stage in old.stages.values()
            if stage.stage_id in contents
        },
        _match_identities(old_views, new_views, names),
        _match_identities(old_buffers, new_buffers, names),
        _list_writers(new),
    )


def _match_identities(old: Iterable[str], new: Iterable[str], names: StepMatch) -> dict[str, str]:
    """Returns the new identity by old identity. If two old stages have the same new identity, the
    first one counts, and `StepMatch.list_mapping_problems` refuses the update.
    """
    unmatched = set(new)
    pairs: dict[str, str] = {}
    for identity in sorted(old):
        target = translate_identity(identity, names)
        if target in unmatched:
            unmatched.remove(target)
            pairs[identity] = target
    return pairs


def translate_identity(identity: str, names: StepMatch) -> str:
    """Returns the identity with the step's name in the new pipeline; an empty text if the new
    pipeline doesn't have the step.
    """
    output = _OUTPUT.fullmatch(identity)
    if output is not None:
        step = names.translate_step(output["step"])
        return "" if step is None else f"{output['kind']}:{step}|{output['tag']}"
    kind, _, old_step = identity.partition(":")
    step = names.translate_step(old_step)
    return "" if step is None else f"{kind}:{step}"


def find_step_of_output(identity: str) -> str:
    """Returns the step that makes a stored collection; an empty text for other collections."""
    output = _OUTPUT.fullmatch(identity)
    return "" if output is None else output["step"]


def _list_writers(plan: JobPlan) -> dict[str, tuple[str, ...]]:
    writers: dict[str, tuple[str, ...]] = {}
    for stage in plan.stages.values():
        for buffer_id in dict.fromkeys(stage.outputs.values()):
            buffer = plan.buffers[buffer_id].identity
            writers[buffer] = (*writers.get(buffer, ()), stage.identity)
    return writers
