"""Check of a job for resources that executors on other machines can't reach."""

from __future__ import annotations

from collections.abc import Collection

from beam_runner_model.jobs import JobSpec
from beam_runner_planner.environments import option_value


def find_loopback_address(job: JobSpec, elsewhere: Collection[str]) -> str:
    """Returns one sentence with the resource and what to do; empty if executors can reach all
    resources.

    Args:
        job: the job.
        elsewhere: the hosts of executors on other machines.
    """
    if not elsewhere or option_value(job.options, "environment_type") != "LOOPBACK":
        return ""
    host = min(elsewhere)
    return (
        "--environment_type=LOOPBACK runs user code in the program that submits the"
        f" job, but workers on other machines, such as {host}, can't reach that program:"
        " leave the option out for the default environment, or set PROCESS, DOCKER or"
        " EXTERNAL with an environment that those machines have"
    )
