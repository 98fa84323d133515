"""The commands for jobs, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from beam_runner_server.job_commands import (
    describe_command,
    ending_commands,
    jobs_command,
    logs_command,
    story_command,
)

ALL = (
    jobs_command.COMMAND,
    describe_command.COMMAND,
    logs_command.COMMAND,
    ending_commands.CANCEL,
    ending_commands.DRAIN,
    story_command.COMMAND,
)
HELP = (
    " `jobs`, `describe`, `logs`, `cancel`, `drain` and `story` show and end the jobs of a running"
    " server; `COMMAND --help` describes each command."
)
"""A sentence for the ``--help`` of a program with these commands."""


def commands_of(program: str) -> Mapping[str, Callable[[Sequence[str]], int]]:
    """Returns the commands as a program runs them; ``program`` is its name, for usage texts and errors."""
    return {one.name: partial(one.run, program) for one in ALL}
