"""Comparison of what the stages of two plans read, for data outside of a job, such as a quarantine."""

from __future__ import annotations

from collections.abc import Mapping

from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.coders import compare_coders
from beam_runner_planner.updates.views import list_stage_views


def list_unreadable_inputs(
    old: JobPlan, new: JobPlan, stages: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Returns the old stages whose input the new stage can't read, with the old and the new coder.

    Args:
        old: the plan of the old job.
        new: the plan of the new job.
        stages: the identity of the new stage by the identity of the old stage that the new stage
            continues.
    """
    old_views, new_views = list_stage_views(old), list_stage_views(new)
    changes = {
        before: compare_coders(old_views[before].input_coder, new_views[after].input_coder)
        for before, after in stages.items()
    }
    return {
        stage: (change.before, change.after)
        for stage, change in changes.items()
        if change is not None and not change.is_readable
    }
