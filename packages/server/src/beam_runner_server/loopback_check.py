"""Check that executors on other machines can reach all addresses that a job contains."""

from __future__ import annotations

from collections.abc import Collection

from beam_runner_model.jobs import JobSpec
from beam_runner_planner.environments import get_option_value


def explain_unreachable_loopback(job: JobSpec, elsewhere: Collection[str]) -> str:
    """Returns one sentence about an unreachable address, with a fix; empty if executors can reach
    all addresses.

    Args:
        elsewhere: the hosts of executors on other machines.
    """
    if not elsewhere or get_option_value(job.options, "environment_type") != "LOOPBACK":
        return ""
    host = min(elsewhere)
    return (
        "--environment_type=LOOPBACK runs user code in the program that submits the"
        f" job, but workers on other machines, such as {host}, can't reach that program:"
        " leave the option out for the default environment, or set PROCESS, DOCKER or"
        " EXTERNAL with an environment that those machines have"
    )
