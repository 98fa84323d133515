"""Transfer of the list of quarantined (failing) elements to a job that continues with the state of
another job.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.inputs import list_unreadable_inputs

from beam_runner_driver.ledger.quarantine import QuarantinedFile


def transfer_quarantine_records(
    files: Mapping[str, QuarantinedFile],
    old: JobPlan,
    new: JobPlan,
    stages: Mapping[str, str],
) -> dict[str, QuarantinedFile]:
    """Returns the records of the quarantine files, with each stage of the old plan replaced by the
    stage of the new plan that continues it.

    Args:
        files: units of the other job, by file name.
        old: plan of the other job.
        new: plan of the job that continues.
        stages: identity of the new stage by the identity of the old stage that it continues.
    """
    if not files:
        return {}
    unreadable = list_unreadable_inputs(old, new, stages)
    return {
        name: attrs.evolve(
            file,
            stage=stages.get(file.stage, ""),
            coders=file.coders or unreadable.get(file.stage, ()),
        )
        for name, file in files.items()
    }
