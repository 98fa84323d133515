"""Working directory of a job's worker processes, and a warning if relative paths don't refer to the
client's working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from beam_runner_model.jobs import JobSpec
from beam_runner_model.texts import truncate_text
from beam_runner_planner.file_steps import FileStep
from beam_runner_runtime.client_folder import ClientFolder

_LONGEST = 500
_MOST = 10
"""Maximum number of steps that a warning lists."""


def find_reachable_folder(job: JobSpec, *, on_cluster: bool) -> str:
    """Returns the client's working directory if all workers of the job can enter it, otherwise an
    empty text.

    Args:
        on_cluster: whether workers can run on other machines than this one.
    """
    folder = None if on_cluster else ClientFolder.from_job_options(job.options)
    return folder.path if folder is not None and folder.is_reachable(resumed=job.resumed) else ""


def describe_relative_paths(job: JobSpec, steps: Iterable[FileStep], *, on_cluster: bool) -> str:
    """Returns a warning for a job whose workers can't enter the client's working directory; empty if
    no step has a relative path.

    Args:
        steps: the job's steps with files.
        on_cluster: whether workers can run on other machines than this one.
    """
    uses = {
        f"'{step.name}' {'writes' if step.is_write else 'reads'}"
        f" '{truncate_text(step.pattern, _LONGEST)}'": None
        for step in steps
        if step.is_relative and not step.elsewhere
    }
    if not uses:
        return ""
    folder = ClientFolder.from_job_options(job.options)
    reason = (
        "The client sent no working directory"
        if folder is None
        else f"Workers can't enter the client's working directory {truncate_text(folder.path, _LONGEST)}"
    )
    where = "on each machine" if on_cluster else f"on this server's machine {os.getcwd()}"
    return (
        f"{reason}, so relative paths refer to the working directory of the workers, {where}:"
        f" {', '.join(list(uses)[:_MOST])}. Use absolute paths or URLs"
    )
